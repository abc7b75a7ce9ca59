#include "worker/tasks/sample_text.h"

#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

namespace ddprun::tasks {
namespace {

/// Scores divided by less may be larger than any number.
constexpr double kLowestTemperature = 1e-6;

using Tokens = std::vector<std::int64_t>;

std::size_t length_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0xc0) return 1;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

Tokens characters_of(std::string_view text, const std::vector<std::string>& names) {
  std::map<std::string_view, std::int64_t> numbers;
  for (std::size_t i = 0; i < names.size(); ++i) numbers[names[i]] = static_cast<std::int64_t>(i);
  Tokens tokens;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, length_of_character(text.front()));
    const auto found = numbers.find(character);
    if (found == numbers.end()) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("the text of the job has no \"{}\", which is in the input", character));
    }
    tokens.push_back(found->second);
    text.remove_prefix(character.size());
  }
  return tokens;
}

Tokens numbers_of(const std::string& text, std::int64_t vocabulary) {
  Tokens tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int64_t token = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size() || token < 0 || token >= vocabulary) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("the job's tokens have no names: expected numbers from 0 to {}, got \"{}\"",
                                  vocabulary - 1, word));
    }
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

std::string sample_text(Model& model, const DataShape& data, const std::string& prompt,
                        const SampleOptions& options) {
  const bool has_names = !data.class_names.empty();
  Tokens tokens = has_names ? characters_of(prompt, data.class_names) : numbers_of(prompt, data.classes);
  if (tokens.empty())
    throw Exception(ErrorCode::kConfig,
                    "the input is empty, and a text is continued from its first token on");
  const auto block = static_cast<std::size_t>(data.tensors.at(0).sizes.at(0));
  const at::Device device = view_of(model).parameters.front().tensor.device();
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  std::string text;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::size_t seen = std::min(tokens.size(), block);
    const at::Tensor input =
        at::tensor(at::ArrayRef<std::int64_t>(tokens).slice(tokens.size() - seen), at::kLong).unsqueeze(0);
    const at::Tensor scores =
        model.forward(input.to(device)).select(0, 0).select(0, -1).to(at::kDouble).cpu();
    const at::Tensor next =
        options.temperature > 0
            ? at::multinomial((scores / std::max(options.temperature, kLowestTemperature)).softmax(0), 1,
                              false, generator)
            : scores.argmax();
    const auto token = next.item<std::int64_t>();
    tokens.push_back(token);
    text += has_names ? data.class_names.at(static_cast<std::size_t>(token)) : fmt::format(" {}", token);
  }
  return text;
}

std::string first_prompt(const DataShape& data) {
  const std::vector<std::string>& names = data.class_names;
  if (names.empty()) return "0";
  return std::find(names.begin(), names.end(), "\n") != names.end() ? "\n" : names.front();
}

void check_has_text(const DataShape& data, const std::string& key) {
  if (data.unit == "tokens") return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: a text is sampled from a model of tokens, and the data has {}; remove it",
                              key, data.unit));
}

}  // namespace ddprun::tasks
