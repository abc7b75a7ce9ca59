#include "worker/data/table.h"

#include "worker/data/csv.h"
#include "worker/data/npy.h"
#include "worker/data/read_file.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::size_t kTableLimit = std::size_t{8} << 30;
constexpr const char* kAsTheyAre = "taken as they are";
constexpr const char* kStandardised = "standardised by column";

/// The first `limit` rows, without the memory of the others; 0: all.
at::Tensor first_rows(const at::Tensor& rows, std::int64_t limit) {
  return limit == 0 || limit >= rows.size(0) ? rows : rows.narrow(0, 0, limit).clone();
}

Csv load_csv(const std::string& path, std::int64_t limit, const std::vector<std::string>& known = {}) {
  const auto bytes = runtime::value_or_throw(read_file(path, kTableLimit));
  Csv csv = runtime::value_or_throw(
      parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, known));
  const auto wanted = static_cast<std::size_t>(limit);
  if (limit > 0 && wanted < csv.rows()) csv.numbers.resize(wanted * csv.names.size());
  return csv;
}

at::Tensor load_npy(const std::string& path, std::int64_t limit) {
  return first_rows(
      runtime::value_or_throw(parse_npy(runtime::value_or_throw(read_file(path, kTableLimit)), path)), limit);
}

void check_width(const Table& train, const Table& test, const std::string& folder) {
  const auto width = [](const at::Tensor& rows) { return rows.sizes().slice(1); };
  const bool differ_in_samples = width(train.features) != width(test.features);
  if (!differ_in_samples && width(train.targets) == width(test.targets)) return;
  const at::Tensor& of_train = differ_in_samples ? train.features : train.targets;
  const at::Tensor& of_test = differ_in_samples ? test.features : test.targets;
  throw Exception(ErrorCode::kCorrupt,
                  fmt::format("the training data of {} has {} of shape [{}] and the test data of shape [{}]; "
                              "they are not of one set",
                              folder, differ_in_samples ? "samples" : "targets",
                              fmt::join(width(of_train), ", "), fmt::join(width(of_test), ", ")));
}

/// By column.
struct Scaling {
  std::vector<double> mean;
  std::vector<double> deviation;
};

Scaling scaling_of(const at::Tensor& features) {
  const double* const values = features.const_data_ptr<double>();
  const auto rows = static_cast<std::size_t>(features.size(0));
  const auto width = static_cast<std::size_t>(features.size(1));
  Scaling scaling;
  for (std::size_t column = 0; column < width; ++column) {
    double sum = 0;
    double squares = 0;
    bool is_constant = true;
    for (std::size_t row = 0; row < rows; ++row) {
      sum += values[row * width + column];
      is_constant = is_constant && values[row * width + column] == values[column];
    }
    // Of equal numbers the sum is rounded, and what is left of it would pass for a deviation.
    const double mean = is_constant ? values[column] : sum / static_cast<double>(rows);
    for (std::size_t row = 0; row < rows; ++row) squares += std::pow(values[row * width + column] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(rows));
    scaling.mean.push_back(mean);
    scaling.deviation.push_back(deviation > 0 ? deviation : 1);
  }
  return scaling;
}

void scale(const at::Tensor& features, const Scaling& scaling) {
  auto* const values = features.mutable_data_ptr<double>();
  const std::size_t width = scaling.mean.size();
  for (std::size_t i = 0; i < static_cast<std::size_t>(features.numel()); ++i)
    values[i] = (values[i] - scaling.mean[i % width]) / scaling.deviation[i % width];
}

bool has_name(const Csv& csv, const std::string& name) {
  return std::find(csv.names.begin(), csv.names.end(), name) != csv.names.end();
}

/// Columns by their names, in the order of `names`.
/// Errors  Exception kCorrupt: `file` lacks one of them.
at::Tensor take_columns(const Csv& csv, const std::vector<std::string>& names, const std::string& file) {
  std::map<std::string_view, std::size_t> places;
  for (const std::string& name : csv.names) places.emplace(name, places.size());
  std::vector<std::size_t> wanted;
  for (const std::string& name : names) {
    const auto place = places.find(name);
    if (place == places.end()) {
      throw Exception(ErrorCode::kCorrupt,
                      fmt::format("{} has no column {}, which the training data has; there are {}", file,
                                  shown_names({name}), shown_names(csv.names)));
    }
    wanted.push_back(place->second);
  }
  at::Tensor columns = at::empty(
      {static_cast<std::int64_t>(csv.rows()), static_cast<std::int64_t>(names.size())}, at::kDouble);
  auto* value = columns.mutable_data_ptr<double>();
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    for (const std::size_t place : wanted) *value++ = csv.numbers[row * csv.names.size() + place];
  }
  return columns;
}

/// What a model is fed with, as its training data says.
struct Feed {
  std::string target;  ///< the name of the column to be learned
  bool is_target_first = false;
  std::vector<std::string> columns;
  std::optional<Scaling> scaling;

  Feed(const Csv& train, const Options& options);
  [[nodiscard]] bool has_column(const std::string& name) const {
    return std::find(columns.begin(), columns.end(), name) != columns.end();
  }
  [[nodiscard]] at::Tensor features_of(const Csv& csv, const std::string& file) const;
  [[nodiscard]] std::string in_words() const;
};

Feed::Feed(const Csv& train, const Options& options) : target(options.text("target")) {
  if (target.empty()) target = train.names.back();
  is_target_first = train.names.front() == target;
  for (const std::string& name : train.names) {
    if (name != target) columns.push_back(name);
  }
  if (!options.flag("standardize")) return;
  scaling = scaling_of(take_columns(train, columns, options.text("path")));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (std::isfinite(scaling->mean[i]) && std::isfinite(scaling->deviation[i])) continue;
    throw Exception(
        ErrorCode::kCorrupt,
        fmt::format("{}: the deviation of column {} is no finite number; its numbers are too large to be "
                    "standardised: divide them, or set {}/standardize to false",
                    options.text("path"), shown_names({columns[i]}), options.pointer()));
  }
}

at::Tensor Feed::features_of(const Csv& csv, const std::string& file) const {
  at::Tensor features = take_columns(csv, columns, file);
  if (scaling) scale(features, *scaling);
  return features;
}

std::string Feed::in_words() const {
  if (!scaling) return kStandardised;
  // Of rows in another order, the last bits of both are others.
  std::string text;
  for (std::size_t i = 0; i < scaling->mean.size(); ++i) {
    const double mean = scaling->mean[i], deviation = scaling->deviation[i];
    // A mean is told from another one by the ten thousandth part of the deviation, where that says anything.
    text += std::abs(mean) > 1e7 * deviation ? fmt::format("{:.9g}", mean)
                                             : fmt::format("{}/", std::llround(1e4 * mean / deviation));
    text += fmt::format(" {:.5g};", deviation);
  }
  const uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return fmt::format("{} (means and deviations of CRC-32 {:08x})", kStandardised, sum);
}

/// The name of the column to be learned. Where the options name none: that of the training data; of data to be judged
/// by, whose target may have another name, the only column that is no feature, if it stands where the training data has
/// its own, and is no number of rows in front of it.
std::string target_of(const Csv& csv, const Feed& feed, const Options& options) {
  const std::string named = options.text("target");
  if (!named.empty()) return named;
  const bool may_have_another = options.has(kTrainedOn) && csv.names.size() == feed.columns.size() + 1;
  if (has_name(csv, feed.target) || !may_have_another) return feed.target;
  const std::string& same_place = feed.is_target_first ? csv.names.front() : csv.names.back();
  return same_place.empty() || feed.has_column(same_place) ? feed.target : same_place;
}

Table make_table(const Csv& csv, const Feed& feed, const Options& options, const std::string& file) {
  const std::string target = target_of(csv, feed, options);
  if (!has_name(csv, target)) {
    throw Exception(ErrorCode::kConfig, fmt::format("{}/target: {} has no column {}; there are {}",
                                                    options.pointer(), file, target, shown_names(csv.names)));
  }
  if (feed.has_column(target)) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}/target: the column {} of {} is not to be learned: the model is fed with "
                                "it, as with the training data's; name another one of {}",
                                options.pointer(), target, file, shown_names(csv.names)));
  }
  return {feed.features_of(csv, file), take_columns(csv, {target}, file).reshape({-1}), feed.columns,
          options.flag("standardize") ? feed.in_words() : kAsTheyAre};
}

DataSplits to_splits(Table train, Table test, std::int64_t classes, const std::string& folder) {
  check_width(train, test, folder);
  return {std::make_shared<TableSource>(std::move(train), classes, folder + " (training)"),
          std::make_shared<TableSource>(std::move(test), classes, folder + " (test)")};
}

/// The place of the first number that float32, which models are fed with, does not have as a finite one.
std::optional<std::int64_t> find_infinite(const at::Tensor& numbers) {
  if (!numbers.is_floating_point()) return std::nullopt;
  constexpr std::int64_t kAtOnce = 1 << 20;
  const at::Tensor flat = numbers.reshape({-1});
  for (std::int64_t first = 0; first < flat.size(0); first += kAtOnce) {
    const at::Tensor part = flat.narrow(0, first, std::min(kAtOnce, flat.size(0) - first)).to(at::kFloat);
    const at::Tensor bad = at::isfinite(part).logical_not().nonzero();
    if (bad.size(0) > 0) return first + bad[0][0].item<std::int64_t>();
  }
  return std::nullopt;
}

std::string no_finite_number(const at::Tensor& numbers, std::int64_t place) {
  const auto value = numbers.reshape({-1})[place].item<double>();
  return fmt::format("{}, which is no finite number{}", value, std::isfinite(value) ? " in float32" : "");
}

}  // namespace

TableSource::TableSource(Table table, std::int64_t classes, const std::string& name)
    : table_(std::move(table)) {
  at::Tensor &features = table_.features, &targets = table_.targets;
  const auto refuse = [&](const std::string& why) { throw Exception(ErrorCode::kCorrupt, name + why); };
  if (features.size(0) == 0) refuse(": there is no sample");
  if (features.dim() == 1) features = features.unsqueeze(1);
  const std::int64_t width = features.numel() / features.size(0);
  if (width == 0) refuse(": its samples hold no number");
  if (const auto bad = find_infinite(features))
    refuse(fmt::format(": sample {} holds {}", *bad / width, no_finite_number(features, *bad)));
  if (features.size(0) != targets.size(0))
    refuse(fmt::format(": there are {} samples and {} targets", features.size(0), targets.size(0)));
  if (features.is_floating_point()) features = features.to(at::kFloat);
  shape_.tensors = {{"features", features.sizes().slice(1).vec(), at::kFloat}};
  shape_.classes = classes;
  shape_.columns = table_.columns;
  shape_.scaling = table_.scaling;
  if (classes == 0) {
    if (targets.dim() == 1) targets = targets.unsqueeze(1);
    if (const auto bad = find_infinite(targets)) {
      refuse(fmt::format(": the target of sample {} is {}", *bad / (targets.numel() / targets.size(0)),
                         no_finite_number(targets, *bad)));
    }
    targets = targets.to(at::kFloat);
    shape_.tensors.push_back({"target", targets.sizes().slice(1).vec(), at::kFloat});
    return;
  }
  shape_.tensors.push_back({"label", {}, at::kLong});
  if (targets.numel() != targets.size(0))
    refuse(": there are several targets for a sample, expected one class");
  const at::Tensor values = targets.reshape({-1}).to(at::kDouble);
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    const double value = values.const_data_ptr<double>()[row];
    if (!(value >= 0 && value < static_cast<double>(classes) && value == std::floor(value)))
      refuse(fmt::format(": the target of sample {} is {}, expected a class of 0 to {}", row, value,
                         classes - 1));
  }
  targets = values.to(at::kLong);
}

Batch TableSource::make_batch(const BatchRequest& request) const {
  const auto count = static_cast<std::int64_t>(request.indices.size());
  at::Tensor rows = at::empty({count}, at::kLong);
  std::copy(request.indices.begin(), request.indices.end(), rows.mutable_data_ptr<std::int64_t>());
  const auto gather = [&](const at::Tensor& numbers, at::ScalarType dtype) {
    const at::Tensor gathered = at::index_select(numbers, 0, rows).to(dtype);
    return request.pinned ? gathered.pin_memory() : gathered;
  };
  return {{gather(table_.features, at::kFloat), gather(table_.targets, shape_.tensors[1].dtype)}, count};
}

at::Tensor read_csv_features(const Options& options, const std::string& path) {
  const Csv train = load_csv(options.text("path") + "/train.csv", options.integer("train_samples"));
  return Feed(train, options).features_of(load_csv(path, 0, train.names), path);
}

DataSplits open_csv(const Options& options) {
  const std::string folder = options.text("path");
  const std::string train_file = folder + "/train.csv", test_file = folder + "/test.csv";
  const bool is_judged = options.has(kTrainedOn);
  const Options learned_by = is_judged ? options.object(kTrainedOn) : options;
  const Csv learned = load_csv(learned_by.text("path") + "/train.csv", learned_by.integer("train_samples"));
  const Feed feed(learned, learned_by);
  const auto load = [&](const std::string& file, const char* limit) {
    return make_table(load_csv(file, options.integer(limit), learned.names), feed, options, file);
  };
  Table train =
      is_judged ? load(train_file, "train_samples") : make_table(learned, feed, options, train_file);
  Table test = load(test_file, "test_samples");
  return to_splits(std::move(train), std::move(test), options.integer("classes"), folder);
}

DataSplits open_npy(const Options& options) {
  const std::string folder = options.text("path");
  const auto load = [&](const std::string& split) {
    const std::int64_t limit = options.integer(split + "_samples");
    return Table{load_npy(folder + "/" + split + "_x.npy", limit),
                 load_npy(folder + "/" + split + "_y.npy", limit),
                 {},
                 "taken as they are"};
  };
  Table train = load("train");
  return to_splits(std::move(train), load("test"), options.integer("classes"), folder);
}

}  // namespace ddprun::data
