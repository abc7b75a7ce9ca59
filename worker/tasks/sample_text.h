#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/model.h>

#include <cstdint>
#include <string>

namespace ddprun::tasks {

struct SampleOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  ///< 0: the likeliest token each time
  std::uint64_t seed = 0;
};

/// What follows `prompt`: token by token drawn from what `model` says of the tokens before, as many of them as a
/// sample of the data has. Tokens of a text are its characters, those without names are numbers with blanks between.
///
/// Errors  Exception kConfig: an empty prompt, or one with a character or number that the data does not have
std::string sample_text(Model& model, const DataShape& data, const std::string& prompt,
                        const SampleOptions& options);

/// A prompt for any data of tokens: the end of a line where the text has some, else its first token.
[[nodiscard]] std::string first_prompt(const DataShape& data);

/// Errors  Exception kConfig, naming `key`: data that is not of tokens.
void check_has_text(const DataShape& data, const std::string& key);

}  // namespace ddprun::tasks
