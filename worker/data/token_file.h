#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddprun::data {

/// Tokens in a row: a file's, or those of a text; whoever made them keeps them.
struct Tokens {
  std::span<const std::uint16_t> values;
  std::shared_ptr<const void> owner;
  std::string name;  ///< for messages
};

/// A file of raw little-endian 16-bit tokens, as nanoGPT writes train.bin: mapped, not read, so that it may be
/// larger than memory.
///
/// Errors  kNotFound, kOs; kCorrupt: an odd number of bytes. Each names the file.
Result<Tokens> map_tokens(const std::string& path);

/// The characters of a UTF-8 text as tokens: the place of each in the sorted list of those that occur.
struct TextTokens {
  std::vector<std::string> characters;  ///< by token
  Tokens tokens;
};
/// Errors  kCorrupt: no UTF-8, with the place, or more than 65,536 different characters.
Result<TextTokens> tokenize_characters(const std::string& text, const std::string& name);

}  // namespace ddprun::data
