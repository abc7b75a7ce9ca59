#include "worker/data/table.h"

#include "rendezvous/base/printable.h"
#include "worker/data/read_file.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
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

std::string_view trimmed(std::string_view cell) {
  const auto is_outer = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!cell.empty() && is_outer(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_outer(cell.back())) cell.remove_suffix(1);
  return cell;
}

/// A comma between quotes is part of its cell. Quotes open at the beginning of one, and are a part of it elsewhere.
std::vector<std::string_view> cut_at_commas(std::string_view line) {
  std::vector<std::string_view> cells;
  std::size_t start = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && (is_quoted || trimmed(line.substr(start, i - start)).empty()))
      is_quoted = !is_quoted;
    if (line[i] != ',' || is_quoted) continue;
    cells.push_back(line.substr(start, i - start));
    start = i + 1;
  }
  cells.push_back(line.substr(start));
  return cells;
}

/// Lines without their ends; empty ones are left out, and each keeps its number.
struct Line {
  std::size_t number = 0;
  std::string_view text;
};

std::vector<Line> lines_of(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Excel writes one
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
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

/// A number as pandas reads one: with a sign, and with what is too small for float64 as 0.
std::optional<double> to_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(cell).c_str(), nullptr);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// How numpy names a kind of number. Of what torch can do little with, the next larger one is kept.
struct Kind {
  std::string_view name;
  at::ScalarType read;
  at::ScalarType kept = read;
};

constexpr Kind kKinds[] = {
    {"|u1", at::kByte},
    {"|i1", at::kChar},
    {"|b1", at::kByte},
    {"<i2", at::kShort},
    {"<i4", at::kInt},
    {"<u2", at::kUInt16, at::kInt},
    {"<u4", at::kUInt32, at::kLong},
    {"<i8", at::kLong},
    {"<f4", at::kFloat},
    {"<f8", at::kDouble},
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

/// The first `limit` rows, without the memory of the others; 0: all.
at::Tensor first_rows(const at::Tensor& rows, std::int64_t limit) {
  return limit == 0 || limit >= rows.size(0) ? rows : rows.narrow(0, 0, limit).clone();
}

Table limited_table(Table table, std::int64_t limit) {
  table.features = first_rows(table.features, limit);
  table.targets = first_rows(table.targets, limit);
  return table;
}

Table load_csv(const std::string& path, const Options& options, std::int64_t limit) {
  const auto bytes = runtime::value_or_throw(read_file(path, kTableLimit));
  Table table =
      runtime::value_or_throw(parse_csv({bytes.begin(), bytes.end()}, options.text("target"), path));
  return limited_table(std::move(table), limit);
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
  const auto rows = static_cast<std::int64_t>(lines.size()) - 1;
  table.features = at::empty({rows, static_cast<std::int64_t>(names.size()) - 1}, at::kDouble);
  table.targets = at::empty({rows}, at::kDouble);
  auto* feature = table.features.mutable_data_ptr<double>();
  auto* goal = table.targets.mutable_data_ptr<double>();
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    const std::vector<std::string_view> cells = cut_at_commas(line->text);
    if (cells.size() != names.size()) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}, line {}: expected {} numbers, one for each name, got {}", name,
                               line->number, names.size(), cells.size()));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string_view cell = trimmed(cells[i]);
      const std::optional<double> value = to_number(cell);
      if (!value) {
        return Error(ErrorCode::kCorrupt,
                     fmt::format("{}, line {}, column {}: expected a number, got \"{}\"", name, line->number,
                                 shown_cell(names[i]), shown_cell(cell)));
      }
      // Here: a mean would carry it into every row.
      if (!std::isfinite(*value)) {
        return Error(ErrorCode::kCorrupt,
                     fmt::format("{}, line {}, column {}: expected a finite number, got \"{}\"", name,
                                 line->number, shown_cell(names[i]), shown_cell(cell)));
      }
      *(i == *wanted ? goal : feature)++ = *value;
    }
  }
  return table;
}

Result<at::Tensor> parse_npy(std::vector<std::uint8_t> bytes, const std::string& name) {
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
  const auto item_size = static_cast<std::size_t>(c10::elementSize(kind->read));
  const std::size_t size = all.size() - start - length;
  std::uint64_t count = 1;
  for (const std::int64_t length_of_it : *shape) {
    const auto factor = static_cast<std::uint64_t>(length_of_it);
    count = factor != 0 && count > kMostNumbers / factor ? kMostNumbers + 1 : count * factor;
  }
  if (count != size / item_size || size % item_size != 0) {
    return no_npy(name, fmt::format("its shape is ({}), and {} bytes of {} each follow",
                                    fmt::join(*shape, ", "), size, item_size));
  }
  at::Tensor numbers = at::empty(*shape, kind->read);
  if (size > 0) std::memcpy(numbers.mutable_data_ptr(), bytes.data() + start + length, size);
  bytes = {};
  return numbers.to(kind->kept);
}

namespace {

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
  std::vector<std::int64_t> places;
  for (const std::string& column : without_target(train.columns)) {
    const auto found = std::find(theirs.begin(), theirs.end(), column);
    if (found == theirs.end()) {
      throw Exception(ErrorCode::kCorrupt,
                      fmt::format("{} has no column {}, which the training data has; there are {}", path,
                                  shown_cell(column), shown_names(theirs)));
    }
    places.push_back(found - theirs.begin());
  }
  const at::Tensor features = at::index_select(table.features, 1, at::tensor(places, at::kLong));
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
  // The target may have another name in other data.
  const std::string target = options.text("target").empty() ? train.columns.back() : options.text("target");
  for (Table* table : {&train, &test}) std::erase(table->columns, target);
  return to_splits(std::move(train), std::move(test), options.integer("classes"), folder);
}

DataSplits open_npy(const Options& options) {
  const std::string folder = options.text("path");
  const auto load = [&](const std::string& split) {
    const std::int64_t limit = options.integer(split + "_samples");
    return Table{load_npy(folder + "/" + split + "_x.npy", limit),
                 load_npy(folder + "/" + split + "_y.npy", limit)};
  };
  Table train = load("train");
  return to_splits(std::move(train), load("test"), options.integer("classes"), folder);
}

}  // namespace ddprun::data
