#pragma once

#include <ddprun/exception.h>
#include <ddprun/pt_value.h>

#include <cstddef>
#include <span>
#include <string>

namespace ddprun {

/// Writes `value` to `path` in the format of Python's torch.save: torch.load opens it with its default
/// weights_only=True.
///
/// The file is whole or not there: it is written beside `path` under a temporary name, synced to disk, and
/// renamed. Tensors are stored contiguous, from any device as CPU tensors; a tensor that occurs twice is
/// stored once.
/// Errors  Exception kOs: the disk refuses (full, read-only, no such folder); kConfig: a tensor that cannot be stored
///         (sparse, quantized …), or a text that is no UTF-8, named.
void save_pt(const std::string& path, const PtValue& value);

/// Reads a file written by `save_pt` or by Python's torch.save: dicts, OrderedDicts, lists, tuples, None,
/// bool, int, float, str, tensors and parameters. Nothing in the file is executed; every checksum is
/// verified, so that a file written under torch.serialization.set_crc32_options(False), which has none, is refused as
/// damaged. Tensors are on the CPU.
///
/// Errors  Exception kNotFound, kOs, kCorrupt (damaged, truncated, or holding another Python class; the
///         message names it).
PtValue load_pt(const std::string& path);

/// The same from the file's content, for one that came over the network. `name` is what messages call it.
PtValue parse_pt(std::span<const std::byte> content, const std::string& name);

}  // namespace ddprun
