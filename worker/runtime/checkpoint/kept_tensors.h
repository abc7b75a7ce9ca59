#pragma once

#include "rendezvous/base/result.h"
#include "worker/runtime/checkpoint/kept_memory.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// A file of memory that somebody else keeps, in which tensors of this process live: what it leaves when it is killed
/// is what they hold, and nobody has had to copy it. Whether they were whole, a KeptFile says that refers to them.
class KeptTensors {
 public:
  /// Errors  as KeptMemory's.
  static Result<KeptTensors> open(const std::string& path);

  /// Moves the memory of these tensors here, where it stays as long as any of them lives. Whoever shares it, as a view
  /// or under another name, shares it on; addresses of before are of no use any more. In place of what was here.
  /// Once in a process; small ones stay where they are. Tensors on the CPU, and not while something computes on them.
  /// Errors  kOs: there is no memory; nothing has moved.
  Result<void> adopt(const std::vector<at::Tensor>& tensors);

  /// Where memory that a tensor begins with is in the file; nullopt: it is not here.
  [[nodiscard]] std::optional<std::uint64_t> place_of(const void* data) const;

  /// The file, as this process or one before has left it.
  [[nodiscard]] std::span<const std::byte> bytes() const { return memory_->bytes(); }

 private:
  explicit KeptTensors(KeptMemory memory) : memory_(std::make_shared<KeptMemory>(std::move(memory))) {}

  std::shared_ptr<KeptMemory> memory_;
  std::map<const void*, std::uint64_t> places_;
};

}  // namespace ddprun::runtime
