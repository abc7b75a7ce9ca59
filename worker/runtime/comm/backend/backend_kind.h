#pragma once

#include "rendezvous/base/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::runtime {

enum class BackendKind { kNccl, kGloo, kShm };

std::string_view to_string(BackendKind kind);

/// The kind of this name, if there is one.
std::optional<BackendKind> find_backend_kind(std::string_view name);

/// Which backend serves which tensors of a group. At least one is there.
struct Backends {
  std::optional<BackendKind> cpu;
  std::optional<BackendKind> gpu;

  friend bool operator==(const Backends&, const Backends&) = default;
};

/// "gloo", or "cpu:gloo,cuda:nccl" where two serve a group or one kind of tensors is left out.
std::string to_string(const Backends& backends);

/// What `kind` alone serves for a rank with or without a GPU. Pure.
Backends served_by(BackendKind kind, bool has_gpu);

/// True for "cpu:gloo,cuda:nccl" and its like, which name a backend for each kind of device.
bool names_devices(std::string_view text);

/// Reads those. Pure.
/// Errors  kConfig: not of this form, a device twice, nccl for the CPU, shm for GPUs.
Result<Backends> parse_devices(const std::string& text);

/// Reads them or a single name, for a rank with or without a GPU. Pure.
/// Errors  kConfig: these, an unknown name, a backend for GPUs without one.
Result<Backends> parse_backends(const std::string& text, bool has_gpu);

}  // namespace ddprun::runtime
