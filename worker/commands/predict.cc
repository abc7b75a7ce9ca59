#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/parse_decimal.h"
#include "rendezvous/base/printable.h"
#include "worker/commands/checkpoint_weights.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"
#include "worker/commands/predict_inputs.h"
#include "worker/tasks/sample_text.h"
#include "worker/training/observers/text.h"
#include <ddprun/autocast.h>
#include <ddprun/exception.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace ddprun::commands {
namespace {

using nlohmann::ordered_json;

std::int64_t read_count(const config::JobCommandLine& line, std::string_view flag, std::string_view fallback,
                        std::int64_t lowest) {
  const std::string text = line.value(flag, fallback);
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr std::int64_t kMost = 1'000'000;
  if (error == std::errc() && end == text.data() + text.size() && count >= lowest && count <= kMost)
    return count;
  throw Exception(ErrorCode::kUsage, fmt::format("--{}: expected a number from {} to {}, got \"{}\"", flag,
                                                 lowest, kMost, text));
}

double read_temperature(const config::JobCommandLine& line) {
  const std::string text = line.value("temperature", "0.8");
  const std::optional<double> value = parse_decimal(text);
  if (value && *value >= 0 && *value <= 100) return *value;
  throw Exception(ErrorCode::kUsage,
                  fmt::format("--temperature: expected a number from 0 to 100, got \"{}\"", text));
}

std::string class_name(const DataShape& shape, std::int64_t number) {
  const auto place = static_cast<std::size_t>(number);
  return place < shape.class_names.size() ? shape.class_names[place] : std::to_string(number);
}

/// What the model says of one input.
class Answer {
 public:
  /// output  of one sample
  Answer(const at::Tensor& output, const DataShape& shape, std::int64_t top) : shape_(shape) {
    const at::Tensor numbers = output.flatten().to(at::kDouble).cpu();
    is_class_ = shape.classes > 0 && numbers.numel() == shape.classes;
    if (is_class_) {
      const auto [values, places] = numbers.softmax(0).sort(/*stable=*/true, 0, /*descending=*/true);
      const std::int64_t shown = std::min(top, values.numel());
      for (std::int64_t i = 0; i < shown; ++i)
        found_.emplace_back(places[i].item<std::int64_t>(), values[i].item<double>());
    } else {
      for (std::int64_t i = 0; i < numbers.numel(); ++i) found_.emplace_back(i, numbers[i].item<double>());
    }
  }

  [[nodiscard]] std::string in_words() const {
    std::vector<std::string> words;
    for (const auto& [number, value] : found_)
      words.push_back(is_class_ ? fmt::format("{}  {:.2f} %", class_name(shape_, number), 100 * value)
                                : fmt::format("{:.6g}", value));
    return fmt::format("{}", fmt::join(words, is_class_ ? ", " : " "));
  }

  [[nodiscard]] ordered_json in_json(const std::string& name) const {
    ordered_json object{{"input", name}};
    for (const auto& [number, value] : found_) {
      const ordered_json finite = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
      if (is_class_) {
        object["classes"].push_back(
            {{"class", number}, {"name", class_name(shape_, number)}, {"probability", finite}});
      } else {
        object["values"].push_back(finite);
      }
    }
    return object;
  }

 private:
  const DataShape& shape_;
  bool is_class_ = false;
  std::vector<std::pair<std::int64_t, double>> found_;
};

/// A byte that is no UTF-8 is shown as such.
std::string in_one_line(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int continue_texts(const OpenedJob& job, const config::JobCommandLine& line) {
  tasks::SampleOptions options{.tokens = read_count(line, "tokens", "200", 1),
                               .temperature = read_temperature(line),
                               .seed = static_cast<std::uint64_t>(read_count(line, "seed", "0", 0))};
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    const std::string& prompt = line.words[i];
    const std::string text = tasks::sample_text(job.model(), job.shape(), prompt, options);
    print(line.has("json") ? in_one_line({{"input", prompt}, {"text", text}})
                           : fmt::format("{}{}\n", prompt, text));
  }
  return exit_code::kOk;
}

}  // namespace

int run_predict(const config::JobCommandLine& line) {
  const std::int64_t top = read_count(line, "top", "1", 1);
  read_temperature(line);
  const models::WeightsOf which = read_weights_of(line);
  const OpenedJob job = open_job(line);
  const Checkpoint checkpoint = find_checkpoint(job.job, line);
  load_chosen_weights(job.model(), job.job, checkpoint, which);
  check_data(job.shape(), checkpoint);
  job.model().eval();
  const at::NoGradGuard no_grad;
  const std::optional<at::ScalarType> autocast = compute_as_trained(job);
  const auto as_trained = [&](const auto& compute) {
    std::optional<AutocastGuard> guard;
    if (autocast) guard.emplace(job.context.device().type(), autocast);
    return compute();
  };
  if (job.shape().unit == "tokens") return as_trained([&] { return continue_texts(job, line); });

  int exit_code = exit_code::kOk;
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    try {
      // A file of rows at once: a table is small, and an image alone.
      const Inputs inputs = read_inputs(job, line.words[i]);
      const at::Tensor outputs = as_trained([&] {
                                   return job.model().forward(inputs.samples.to(job.context.device()));
                                 }).to(at::kFloat);
      for (std::size_t row = 0; row < inputs.names.size(); ++row) {
        const Answer answer(outputs[static_cast<std::int64_t>(row)], job.shape(), top);
        print(line.has("json") ? in_one_line(answer.in_json(inputs.names[row]))
                               : fmt::format("{}  {}\n", inputs.names[row], answer.in_words()));
      }
    } catch (const Exception& exception) {
      if (exception.code() == ErrorCode::kUsage || exception.code() == ErrorCode::kOs) throw;
      // The other inputs may be well.
      print_error(printable_lines(fmt::format("ddprun predict: {}\n", exception.what())));
      exit_code = exit_code::kConfig;
    }
  }
  return exit_code;
}

}  // namespace ddprun::commands
