#pragma once

#include "rendezvous/base/result.h"
#include "worker/data/token_file.h"

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::data {

/// The characters of a UTF-8 text as tokens: the place of each in the sorted list of those that occur. As in Python,
/// whose open() translates them, "\r\n" and "\r" are "\n".
struct TextTokens {
  std::vector<std::string> characters;  ///< by token
  Tokens tokens;
};
/// Errors  kCorrupt: no UTF-8, with the place, or more than 65,536 different characters.
Result<TextTokens> tokenize_characters(std::string_view text, const std::string& name);

/// Where the tokens of the text `path` are kept: beside it, as `path`.tokens. A line of JSON (the text's size and
/// time of change, by which it is known again, how many tokens follow, and the characters), and then the tokens as
/// map_tokens takes them.
std::string kept_tokens_path(const std::string& path);

/// Writes that file where it is not there or is of another text; another program's file is left alone. Each process
/// of a host calls it, and one of them does the work, while the others wait. What keeps it from being written (a
/// folder that is only to be read, a full disk, no text) is no error: then load_text does without.
void keep_text_tokens(const std::string& path, const std::stop_token& stop);

/// The tokens of the text `path`: mapped, where keep_text_tokens has left them; else made anew, in this process's
/// memory.
///
/// Errors  kNotFound, kOs, kCorrupt: of the text.
Result<TextTokens> load_text(const std::string& path);

}  // namespace ddprun::data
