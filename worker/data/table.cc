#include "worker/data/table.h"

#include "rendezvous/base/printable.h"
#include "worker/data/read_file.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::size_t kTableLimit = std::size_t{8} << 30;
constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 40;
constexpr std::size_t kShownBytes = 80;
constexpr std::size_t kShownNames = 20;

std::vector<std::string_view> cut_at_commas(std::string_view line) {
  std::vector<std::string_view> cells;
  std::size_t start = 0;
  for (std::size_t comma; (comma = line.find(',', start)) != std::string_view::npos; start = comma + 1)
    cells.push_back(line.substr(start, comma - start));
  cells.push_back(line.substr(start));
  return cells;
}

std::string_view trimmed(std::string_view cell) {
  const auto is_outer = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!cell.empty() && is_outer(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_outer(cell.back())) cell.remove_suffix(1);
  return cell;
}

/// Lines without their ends; empty ones are left out, and each keeps its number.
struct Line {
  std::size_t number = 0;
  std::string_view text;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++number;
    if (!trimmed(text.substr(0, end)).empty()) lines.push_back({number, text.substr(0, end)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// What a file says, for a message.
std::string shown_cell(std::string_view cell) { return printable(trimmed(cell), kShownBytes); }

template <class Names>
std::string shown_names(const Names& names) {
  std::vector<std::string> shown;
  for (const std::string_view name : names) {
    if (shown.size() == kShownNames) {
      shown.push_back(fmt::format("and {} more", names.size() - kShownNames));
      break;
    }
    shown.push_back(shown_cell(name));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

Result<std::size_t> find_target(const std::vector<std::string_view>& names, const std::string& target,
                                const std::string& file) {
  if (target.empty()) return names.size() - 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (trimmed(names[i]) == target) return i;
  }
  return Error(ErrorCode::kConfig, fmt::format("/data/target: {} has no column {}; there are {}", file,
                                               target, shown_names(names)));
}

template <class T>
double number_at(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

/// How numpy names a kind of number, its bytes, and what reads one.
struct Kind {
  std::string_view name;
  std::size_t bytes;
  double (*read)(const std::uint8_t*);
};

constexpr Kind kKinds[] = {
    {"|u1", 1, number_at<std::uint8_t>},  {"|i1", 1, number_at<std::int8_t>},
    {"|b1", 1, number_at<std::uint8_t>},  {"<i2", 2, number_at<std::int16_t>},
    {"<u2", 2, number_at<std::uint16_t>}, {"<i4", 4, number_at<std::int32_t>},
    {"<u4", 4, number_at<std::uint32_t>}, {"<i8", 8, number_at<std::int64_t>},
    {"<f4", 4, number_at<float>},         {"<f8", 8, number_at<double>},
};

/// The text after `key` in the dictionary of an .npy header, up to `end`.
std::string_view value_of(std::string_view header, std::string_view key, char end) {
  const std::size_t place = header.find(key);
  if (place == std::string_view::npos) return {};
  const std::string_view rest = header.substr(place + key.size());
  return rest.substr(0, rest.find(end));
}

Error no_npy(const std::string& name, const std::string& why) {
  return {ErrorCode::kCorrupt, fmt::format("{} is no file of numpy.save that can be read: {}", name, why)};
}

/// "(3, 4" → 3, 4
Result<std::vector<std::int64_t>> parse_shape(std::string_view text, const std::string& name) {
  std::vector<std::int64_t> sizes;
  text.remove_prefix(std::min(text.find('(') + 1, text.size()));
  for (std::string_view cell : cut_at_commas(text)) {
    cell = trimmed(cell);
    if (cell.empty()) continue;
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), size);
    if (error != std::errc() || end != cell.data() + cell.size() || size < 0 ||
        size > (std::int64_t{1} << 40))
      return no_npy(name, fmt::format("its header has the shape ({})", shown_cell(text)));
    sizes.push_back(size);
  }
  if (sizes.empty()) return no_npy(name, "it holds a single number, expected rows");
  return sizes;
}

void keep_first(Numbers& numbers, std::int64_t limit) {
  if (limit == 0 || limit >= numbers.rows) return;
  numbers.rows = limit;
  numbers.values.resize(static_cast<std::size_t>(limit * numbers.row_size()));
}

Table limited_table(Table table, std::int64_t limit) {
  keep_first(table.features, limit);
  keep_first(table.targets, limit);
  return table;
}

Table load_csv(const std::string& path, const Options& options, std::int64_t limit) {
  const auto bytes = runtime::value_or_throw(read_file(path, kTableLimit));
  Table table =
      runtime::value_or_throw(parse_csv({bytes.begin(), bytes.end()}, options.text("target"), path));
  return limited_table(std::move(table), limit);
}

Numbers load_npy(const std::string& path) {
  return runtime::value_or_throw(parse_npy(runtime::value_or_throw(read_file(path, kTableLimit)), path));
}

void check_width(const Table& train, const Table& test, const std::string& folder) {
  const bool differ_in_samples = train.features.sizes != test.features.sizes;
  if (!differ_in_samples && train.targets.sizes == test.targets.sizes) return;
  const Numbers& of_train = differ_in_samples ? train.features : train.targets;
  const Numbers& of_test = differ_in_samples ? test.features : test.targets;
  throw Exception(ErrorCode::kCorrupt,
                  fmt::format("the training data of {} has {} of shape [{}] and the test data of shape [{}]; "
                              "they are not of one set",
                              folder, differ_in_samples ? "samples" : "targets",
                              fmt::join(of_train.sizes, ", "), fmt::join(of_test.sizes, ", ")));
}

/// By column.
struct Scaling {
  std::vector<double> mean;
  std::vector<double> deviation;
};

Scaling scaling_of(const Numbers& features) {
  const std::int64_t width = features.row_size();
  Scaling scaling;
  for (std::int64_t column = 0; column < width; ++column) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t row = 0; row < features.rows; ++row)
      sum += features.values[static_cast<std::size_t>(row * width + column)];
    const double mean = sum / static_cast<double>(features.rows);
    for (std::int64_t row = 0; row < features.rows; ++row)
      squares += std::pow(features.values[static_cast<std::size_t>(row * width + column)] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(features.rows));
    scaling.mean.push_back(mean);
    scaling.deviation.push_back(deviation > 0 ? deviation : 1);
  }
  return scaling;
}

void scale(Numbers& features, const Scaling& scaling) {
  const std::size_t width = scaling.mean.size();
  for (std::size_t i = 0; i < features.values.size(); ++i)
    features.values[i] = (features.values[i] - scaling.mean[i % width]) / scaling.deviation[i % width];
}

/// The text with one more column, in which every row has 0.
std::string with_column(const std::string& text, const std::string& name) {
  std::string wider;
  std::size_t written = 0;
  bool is_first = true;
  for (const Line& line : lines_of(text)) {
    // Lines keep their numbers, for messages.
    wider.append(line.number - 1 - written, '\n');
    written = line.number;
    std::string_view cells = line.text;
    while (cells.ends_with('\r')) cells.remove_suffix(1);
    wider += fmt::format("{},{}\n", cells, is_first ? name : "0");
    is_first = false;
  }
  return wider;
}

DataSplits to_splits(Table train, Table test, std::int64_t classes, const std::string& folder) {
  check_width(train, test, folder);
  return {std::make_shared<TableSource>(std::move(train), classes, folder + " (training)"),
          std::make_shared<TableSource>(std::move(test), classes, folder + " (test)")};
}

}  // namespace

std::int64_t Numbers::row_size() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

Result<Table> parse_csv(const std::string& text, const std::string& target, const std::string& name) {
  const std::vector<Line> lines = lines_of(text);
  if (lines.size() < 2)
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has no rows: expected a line of names, and numbers below", name));
  const std::vector<std::string_view> names = cut_at_commas(lines.front().text);
  const Result<std::size_t> wanted = find_target(names, target, name);
  if (!wanted) return wanted.error();
  Table table;
  for (const std::string_view column : names) {
    if (std::find(table.columns.begin(), table.columns.end(), trimmed(column)) != table.columns.end())
      return Error(ErrorCode::kCorrupt, fmt::format("{} has two columns \"{}\"", name, shown_cell(column)));
    table.columns.emplace_back(trimmed(column));
  }
  table.features.sizes = {static_cast<std::int64_t>(names.size()) - 1};
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    const std::vector<std::string_view> cells = cut_at_commas(line->text);
    if (cells.size() != names.size()) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}, line {}: expected {} numbers, one for each name, got {}", name,
                               line->number, names.size(), cells.size()));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string_view cell = trimmed(cells[i]);
      double value = 0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      if (error != std::errc() || end != cell.data() + cell.size()) {
        return Error(ErrorCode::kCorrupt,
                     fmt::format("{}, line {}, column {}: expected a number, got \"{}\"", name, line->number,
                                 shown_cell(names[i]), shown_cell(cell)));
      }
      // Here: a mean would carry it into every row.
      if (!std::isfinite(value)) {
        return Error(ErrorCode::kCorrupt,
                     fmt::format("{}, line {}, column {}: expected a finite number, got \"{}\"", name,
                                 line->number, shown_cell(names[i]), shown_cell(cell)));
      }
      (i == *wanted ? table.targets : table.features).values.push_back(value);
    }
    ++table.features.rows;
  }
  table.targets.rows = table.features.rows;
  return table;
}

Result<Numbers> parse_npy(const std::vector<std::uint8_t>& bytes, const std::string& name) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with(kMagic) || all.size() < 12) return no_npy(name, "it does not begin as one");
  const bool is_first_version = bytes[6] == 1;
  const std::size_t length = is_first_version
                                 ? bytes[8] | std::size_t{bytes[9]} << 8
                                 : bytes[8] | std::size_t{bytes[9]} << 8 | std::size_t{bytes[10]} << 16 |
                                       std::size_t{bytes[11]} << 24;
  const std::size_t start = is_first_version ? 10 : 12;
  if (length > all.size() - start) return no_npy(name, "it ends within its header");
  const std::string_view header = all.substr(start, length);
  const std::string_view kind_name = trimmed(value_of(header, "'descr':", ','));
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& candidate) {
    return kind_name == fmt::format("'{}'", candidate.name);
  });
  if (kind == std::end(kKinds))
    return no_npy(name, fmt::format("its numbers are of kind {}", shown_cell(kind_name)));
  if (trimmed(value_of(header, "'fortran_order':", ',')) != "False")
    return no_npy(name, "it is in Fortran's order; save numpy.ascontiguousarray of it");
  const Result<std::vector<std::int64_t>> shape = parse_shape(value_of(header, "'shape':", ')'), name);
  if (!shape) return shape.error();
  Numbers numbers{shape->front(), {shape->begin() + 1, shape->end()}, {}};
  const std::size_t found = (all.size() - start - length) / kind->bytes;
  std::uint64_t count = 1;
  for (const std::int64_t size : *shape) {
    const auto length_of_it = static_cast<std::uint64_t>(size);
    count = size != 0 && count > kMostNumbers / length_of_it ? kMostNumbers + 1 : count * length_of_it;
  }
  if (count != found || (all.size() - start - length) % kind->bytes != 0) {
    return no_npy(name, fmt::format("its shape is ({}), and {} bytes of {} each follow",
                                    fmt::join(*shape, ", "), all.size() - start - length, kind->bytes));
  }
  for (std::size_t i = 0; i < count; ++i)
    numbers.values.push_back(kind->read(bytes.data() + start + length + i * kind->bytes));
  return numbers;
}

namespace {

/// The place of the first value that float32, which models are fed with, does not have as a finite number.
std::optional<std::size_t> find_infinite(const std::vector<double>& values) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](double value) { return std::isfinite(static_cast<float>(value)); });
  if (bad == values.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - values.begin());
}

std::string no_finite_number(double value) {
  return fmt::format("{}, which is no finite number{}", value, std::isfinite(value) ? " in float32" : "");
}

}  // namespace

TableSource::TableSource(Table table, std::int64_t classes, const std::string& name)
    : table_(std::move(table)) {
  const auto refuse = [&](const std::string& why) { throw Exception(ErrorCode::kCorrupt, name + why); };
  if (table_.features.rows == 0) refuse(": there is no sample");
  if (table_.features.sizes.empty()) table_.features.sizes = {1};
  if (table_.features.row_size() == 0) refuse(": its samples hold no number");
  if (const auto bad = find_infinite(table_.features.values)) {
    refuse(fmt::format(": sample {} holds {}", *bad / static_cast<std::size_t>(table_.features.row_size()),
                       no_finite_number(table_.features.values[*bad])));
  }
  if (table_.features.rows != table_.targets.rows)
    refuse(fmt::format(": there are {} samples and {} targets", table_.features.rows, table_.targets.rows));
  shape_.tensors = {{"features", table_.features.sizes, at::kFloat}};
  shape_.classes = classes;
  if (classes == 0) {
    if (table_.targets.sizes.empty()) table_.targets.sizes = {1};
    if (const auto bad = find_infinite(table_.targets.values)) {
      refuse(fmt::format(": the target of sample {} is {}",
                         *bad / static_cast<std::size_t>(table_.targets.row_size()),
                         no_finite_number(table_.targets.values[*bad])));
    }
    shape_.tensors.push_back({"target", table_.targets.sizes, at::kFloat});
    return;
  }
  shape_.tensors.push_back({"label", {}, at::kLong});
  if (table_.targets.row_size() != 1) refuse(": there are several targets for a sample, expected one class");
  table_.targets.sizes.clear();
  for (std::size_t row = 0; row < table_.targets.values.size(); ++row) {
    const double value = table_.targets.values[row];
    if (!(value >= 0 && value < static_cast<double>(classes) && value == std::floor(value)))
      refuse(fmt::format(": the target of sample {} is {}, expected a class of 0 to {}", row, value,
                         classes - 1));
  }
}

Batch TableSource::make_batch(const BatchRequest& request) const {
  const auto count = static_cast<std::int64_t>(request.indices.size());
  const auto gather = [&](const Numbers& numbers, at::ScalarType dtype) {
    std::vector<std::int64_t> sizes{count};
    sizes.insert(sizes.end(), numbers.sizes.begin(), numbers.sizes.end());
    const at::Tensor gathered =
        at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(request.pinned));
    const std::int64_t width = numbers.row_size();
    std::int64_t to = 0;
    for (const std::int64_t index : request.indices) {
      for (std::int64_t i = index * width; i < (index + 1) * width; ++i, ++to) {
        const double value = numbers.values[static_cast<std::size_t>(i)];
        if (dtype == at::kLong) {
          gathered.mutable_data_ptr<std::int64_t>()[to] = static_cast<std::int64_t>(value);
        } else {
          gathered.mutable_data_ptr<float>()[to] = static_cast<float>(value);
        }
      }
    }
    return gathered;
  };
  return {{gather(table_.features, at::kFloat), gather(table_.targets, shape_.tensors[1].dtype)}, count};
}

Numbers read_csv_features(const Options& options, const std::string& path) {
  const Table train =
      load_csv(options.text("path") + "/train.csv", options, options.integer("train_samples"));
  const std::string target = options.text("target").empty() ? train.columns.back() : options.text("target");
  const auto bytes = runtime::value_or_throw(read_file(path, kTableLimit));
  std::string text(bytes.begin(), bytes.end());
  const std::vector<Line> lines = lines_of(text);
  const std::vector<std::string_view> names =
      lines.empty() ? std::vector<std::string_view>() : cut_at_commas(lines.front().text);
  const bool has_target =
      std::any_of(names.begin(), names.end(), [&](std::string_view name) { return trimmed(name) == target; });
  if (!has_target) text = with_column(text, target);
  const Table table = runtime::value_or_throw(parse_csv(text, target, path));

  const auto without_target = [&](std::vector<std::string> columns) {
    std::erase(columns, target);
    return columns;
  };
  const std::vector<std::string> theirs = without_target(table.columns);
  std::vector<std::size_t> places;
  for (const std::string& column : without_target(train.columns)) {
    const auto found = std::find(theirs.begin(), theirs.end(), column);
    if (found == theirs.end()) {
      throw Exception(ErrorCode::kCorrupt,
                      fmt::format("{} has no column {}, which the training data has; there are {}", path,
                                  shown_cell(column), shown_names(theirs)));
    }
    places.push_back(static_cast<std::size_t>(found - theirs.begin()));
  }
  Numbers features{table.features.rows, train.features.sizes, {}};
  for (std::int64_t row = 0; row < features.rows; ++row) {
    for (const std::size_t place : places)
      features.values.push_back(table.features.values[static_cast<std::size_t>(row) * theirs.size() + place]);
  }
  if (options.flag("standardize")) scale(features, scaling_of(train.features));
  return features;
}

DataSplits open_csv(const Options& options) {
  const std::string folder = options.text("path");
  Table train = load_csv(folder + "/train.csv", options, options.integer("train_samples"));
  Table test = load_csv(folder + "/test.csv", options, options.integer("test_samples"));
  check_width(train, test, folder);
  if (train.columns != test.columns) {
    throw Exception(
        ErrorCode::kCorrupt,
        fmt::format("the columns of {0}/train.csv are {1}, and those of {0}/test.csv {2}; give both "
                    "the same, in one order",
                    folder, shown_names(train.columns), shown_names(test.columns)));
  }
  if (options.flag("standardize")) {
    const Scaling scaling = scaling_of(train.features);
    scale(train.features, scaling);
    scale(test.features, scaling);
  }
  return to_splits(std::move(train), std::move(test), options.integer("classes"), folder);
}

DataSplits open_npy(const Options& options) {
  const std::string folder = options.text("path");
  Table train{load_npy(folder + "/train_x.npy"), load_npy(folder + "/train_y.npy")};
  Table test{load_npy(folder + "/test_x.npy"), load_npy(folder + "/test_y.npy")};
  return to_splits(limited_table(std::move(train), options.integer("train_samples")),
                   limited_table(std::move(test), options.integer("test_samples")),
                   options.integer("classes"), folder);
}

}  // namespace ddprun::data
