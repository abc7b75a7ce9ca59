#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/pt_value.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace ddprun::runtime {

/// Gives the bytes of storage `key` (record data/<key>), checked.
using StorageReader = std::function<Result<std::span<const std::byte>>(const std::string& key)>;

/// The value in a data.pkl. Understands what torch.load understands with weights_only=True of containers, scalars,
/// tensors and parameters, and numpy's arrays of bytes, as tensors; nothing is executed, and work and memory are
/// bounded by the size of the file: beside the storages, once each, 64 MiB, and 64 bytes for each of its own.
///
/// Errors  kCorrupt: damaged, another class (named), nested more than 200 deep, tensors beyond their storage or of more
///         than 64 dimensions, and what libtorch refuses; kOs: there is too little memory. No exception.
Result<PtValue> unpickle(std::span<const std::byte> bytes, const StorageReader& read_storage);

}  // namespace ddprun::runtime
