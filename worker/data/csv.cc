#include "worker/data/csv.h"

#include "rendezvous/base/parse_decimal.h"
#include "rendezvous/base/printable.h"
#include "worker/data/cell_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::size_t kShownNames = 20;

bool is_in_quotes(std::string_view cell) {
  return cell.size() > 1 && cell.front() == '"' && cell.back() == '"';
}

/// Without what stands around it.
std::string_view trimmed(std::string_view cell) {
  cell = without_blanks(cell);
  return is_in_quotes(cell) ? cell.substr(1, cell.size() - 2) : cell;
}

std::string to_name(std::string_view cell) {
  const bool has_doubled_quotes = is_in_quotes(without_blanks(cell));
  cell = trimmed(cell);
  std::string name;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    name += cell[i];
    if (has_doubled_quotes && cell.substr(i, 2) == "\"\"") ++i;
  }
  return name;
}

/// A comma between quotes is part of its cell. Quotes open at the beginning of one, and are a part of it elsewhere.
std::vector<std::string_view> cut_at_commas(std::string_view line) {
  std::vector<std::string_view> cells;
  std::size_t start = 0;
  bool is_begun = false;
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (is_quoted) {
      // A doubled quote closes and opens again.
      is_quoted = line[i] != '"' || (line.substr(i, 2) == "\"\"" && ++i > 0);
    } else if (line[i] == ',') {
      cells.push_back(line.substr(start, i - start));
      start = i + 1;
      is_begun = false;
    } else if (!is_begun && !is_blank(line[i])) {
      is_begun = true;
      is_quoted = line[i] == '"';
    }
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

/// A number as pandas reads one: with a sign, and with what is too small for float64 as 0.
std::optional<double> to_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  return parse_decimal(cell);
}

bool is_zero_one_two(const std::vector<std::string_view>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (without_blanks(cells[i]) != std::to_string(i)) return false;
  }
  return true;
}

Result<std::vector<std::string>> parse_names(std::string_view line, const std::string& file,
                                             const std::vector<std::string>& known) {
  const std::vector<std::string_view> cells = cut_at_commas(line);
  const bool is_of_pandas = cells.size() > 1 && is_zero_one_two(cells);
  const auto is_row_of = [&](std::string_view cell) {
    return to_number(without_blanks(cell)) &&
           std::find(known.begin(), known.end(), without_blanks(cell)) == known.end();
  };
  const bool are_numbers = std::all_of(cells.begin(), cells.end(), [](std::string_view cell) {
    return to_number(without_blanks(cell)).has_value();
  });
  if (are_numbers && !is_of_pandas && std::any_of(cells.begin(), cells.end(), is_row_of)) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{} begins with numbers, expected a name for each column; put a line of names above "
                    "them (names that are numbers stand in quotes)",
                    file));
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const std::string_view cell : cells) {
    names.push_back(to_name(cell));
    if (!seen.insert(names.back()).second)
      return Error(ErrorCode::kCorrupt, fmt::format("{} has two columns \"{}\"", file, shown_cell(cell)));
  }
  return names;
}

std::string not_a_number(std::string_view cell) {
  const char* const kind = to_number(trimmed(cell)) ? "finite number" : "number";
  return fmt::format("expected a {}, got \"{}\"", kind, shown_cell(cell));
}

}  // namespace

Result<Csv> parse_csv(std::string_view text, const std::string& file, const std::vector<std::string>& known) {
  const std::vector<Line> lines = lines_of(text);
  if (lines.size() < 2)
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has no rows: expected a line of names, and numbers below", file));
  Result<std::vector<std::string>> names = parse_names(lines.front().text, file, known);
  if (!names) return names.error();
  Csv csv{.names = std::move(*names), .numbers = {}};
  csv.numbers.reserve(std::min((lines.size() - 1) * csv.names.size(), text.size()));
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    const std::vector<std::string_view> cells = cut_at_commas(line->text);
    if (cells.size() != csv.names.size()) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}, line {}: expected {} numbers, one for each name, got {}", file,
                               line->number, csv.names.size(), cells.size()));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::optional<double> value = to_number(trimmed(cells[i]));
      // Here: a mean would carry an infinite one into every row.
      if (!value || !std::isfinite(*value)) {
        return Error(ErrorCode::kCorrupt, fmt::format("{}, line {}, column {}: {}", file, line->number,
                                                      shown_cell(csv.names[i]), not_a_number(cells[i])));
      }
      csv.numbers.push_back(*value);
    }
  }
  return csv;
}

std::string shown_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kShownNames) {
      shown.push_back(fmt::format("and {} more", names.size() - kShownNames));
      break;
    }
    shown.push_back(shown_cell(name));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace ddprun::data
