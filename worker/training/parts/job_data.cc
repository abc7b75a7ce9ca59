#include "worker/training/parts/job_data.h"

#include "worker/data/table.h"
#include "worker/training/parts/data_meaning.h"
#include "worker/training/parts/plugins.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>

namespace ddprun::training {
namespace {

DataSplits make_data(const JobParts& parts, const Options& data, const Options& job) {
  return make_part(parts.data, data.text("type"), data, static_cast<std::uint64_t>(job.integer("seed")));
}

std::string in_words(const DataShape& shape) {
  std::vector<std::string> tensors;
  for (const TensorShape& tensor : shape.tensors)
    tensors.push_back(fmt::format("\"{}\" [{}] {}", tensor.name, fmt::join(tensor.sizes, ", "),
                                  at::toString(tensor.dtype)));
  return fmt::format("{} and {} classes", fmt::join(tensors, ", "), shape.classes);
}

void check_alike(const DataShape& shape, const DataShape& training, const std::string& place) {
  const std::string mine = in_words(shape), theirs = in_words(training);
  if (mine != theirs) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}: gives {}, and the training data {}; they have to be alike", place, mine, theirs));
  }
  check_meaning(shape, training, place);
}

/// Tables are brought into the form of those that the model was trained on.
Options judging_options(const Options& options, const Options& data) {
  if (options.text("type") != "csv" || data.text("type") != "csv") return options;
  nlohmann::json with_training = nlohmann::json::parse(options.to_json());
  with_training[data::kTrainedOn] = nlohmann::json::parse(data.to_json());
  return Options(with_training.dump(), options.pointer());
}

}  // namespace

Result<DataSplits> load_data(JobParts& parts, const Options& job) {
  try {
    load_plugins(job, parts);
    DataSplits splits = make_data(parts, job.object("data"), job);
    check_meaning(splits.held_out->shape(), splits.train->shape(), "/data, held-out samples");
    return splits;
  } catch (const Exception& exception) {
    return Error(exception.code(), exception.what());
  }
}

Result<std::vector<JudgingData>> load_judging_data(const JobParts& parts, const Options& job,
                                                   const DataShape& training) {
  std::vector<JudgingData> all;
  const Options named = job.object("evaluate");
  const nlohmann::json names = nlohmann::json::parse(named.to_json());
  for (const auto& [name, ignored] : names.items()) {
    try {
      DataSplits splits = make_data(parts, judging_options(named.object(name), job.object("data")), job);
      check_alike(splits.held_out->shape(), training, "/evaluate/" + name);
      all.push_back({name, std::move(splits.held_out)});
    } catch (const Exception& exception) {
      const std::string what = exception.what();
      const std::string place = "/evaluate/" + name;
      return Error(exception.code(), what.starts_with(place) ? what : place + ": " + what);
    }
  }
  return all;
}

std::vector<Metric> metrics_of(const std::vector<Metric>& task, std::span<const JudgingData> data) {
  std::vector<Metric> all;
  for (const JudgingData& one : data) {
    for (Metric metric : task) {
      metric.name = one.name + "/" + metric.name;
      all.push_back(std::move(metric));
    }
  }
  return all;
}

}  // namespace ddprun::training
