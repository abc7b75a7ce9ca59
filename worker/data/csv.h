#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::data {

/// A table of numbers with a name for each column.
struct Csv {
  std::vector<std::string> names;
  std::vector<double> numbers;  ///< row by row

  [[nodiscard]] std::size_t rows() const { return numbers.size() / names.size(); }
};

/// Reads a CSV text: a line of names, then lines of as many finite numbers, separated by commas. Quotes are those of
/// RFC 4180: around a cell, which may then hold commas and doubled quotes. `file` is its name, for messages.
///
/// A first line of numbers alone is refused as a row, unless it has the names 0, 1, 2 … of pandas, or all are `known`.
///
/// Errors  kCorrupt: one sentence with the file, the line and the column.
Result<Csv> parse_csv(std::string_view text, const std::string& file,
                      const std::vector<std::string>& known = {});

/// Names of columns, for a message: the first twenty of them.
std::string shown_names(const std::vector<std::string>& names);

}  // namespace ddprun::data
