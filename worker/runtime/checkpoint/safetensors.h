#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/pt_value.h>

#include <cstddef>
#include <span>
#include <string>

namespace ddprun::runtime {

/// Writes a state dict as safetensors: eight bytes with the length of the header (little-endian), the header in
/// JSON, and the tensors' bytes, without gaps, those of wider numbers first so that each is aligned. Tied tensors
/// are written under each of their names, so that load_state_dict(strict=True) takes the file.
///
/// Errors  Exception kOs: the disk refuses; kConfig: a type of numbers that the format does not have.
/// Source  https://github.com/huggingface/safetensors, "Format".
void save_safetensors(const std::string& path, const PtDict& state);

/// Whether that is what `content` begins like, whatever the file's name.
[[nodiscard]] bool looks_like_safetensors(std::span<const std::byte> content);

/// Names and tensors of such a file, in the order of its bytes; the tensors own their memory.
/// Errors  kCorrupt: anything but what the format allows: a gap or an overlap among the tensors' bytes as well.
Result<PtDict> read_safetensors(std::span<const std::byte> content);

/// What a file of weights holds, whichever of the two formats it is in.
/// Errors  Exception, which names the file: kCorrupt, kNotFound, kOs.
PtValue load_pt_or_safetensors(const std::string& path);

}  // namespace ddprun::runtime
