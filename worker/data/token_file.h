#pragma once

#include "rendezvous/base/open_file.h"
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
  std::string name;                             ///< for messages
  std::string remedy = "set /data/vocabulary";  ///< of a token that is beyond the vocabulary
  std::shared_ptr<const OpenFile> file{};       ///< which was mapped; null: they are memory
};

/// Before tokens are looked at: of a file that was made shorter since it was mapped, the kernel answers with SIGBUS.
///
/// Errors  kCorrupt: it was.
Result<void> check_is_whole(const Tokens& tokens);

/// A file of raw little-endian 16-bit tokens, as nanoGPT writes train.bin: mapped, not read, so that it may be
/// larger than memory.
///
/// Errors  kNotFound, kOs; kCorrupt: an odd number of bytes. Each names the file.
Result<Tokens> map_tokens(const std::string& path);

}  // namespace ddprun::data
