#pragma once

#include <ddprun/pt_value.h>

#include <string>

namespace ddprun::commands {

/// Writes a state dict as safetensors: eight bytes with the length of the header (little-endian), the header in
/// JSON, and the tensors' bytes, without gaps, those of wider numbers first so that each is aligned. Tied tensors
/// are written under each of their names, so that load_state_dict(strict=True) takes the file.
///
/// Errors  Exception kOs: the disk refuses; kConfig: a type of numbers that the format does not have.
/// Source  https://github.com/huggingface/safetensors, "Format".
void save_safetensors(const std::string& path, const PtDict& state);

}  // namespace ddprun::commands
