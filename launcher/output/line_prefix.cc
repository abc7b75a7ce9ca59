#include "launcher/output/line_prefix.h"

#include <algorithm>

namespace ddprun::launcher {
namespace {

// Where the line that begins at `from` ends: one past its '\n', or past a '\r' on its own.
std::size_t line_end(std::string_view block, std::size_t from) {
  const std::size_t newline = block.find('\n', from);
  const std::size_t end = newline == std::string_view::npos ? block.size() : newline + 1;
  std::size_t carriage = block.substr(0, end).find('\r', from);
  while (carriage != std::string_view::npos && carriage + 1 < end) {
    if (block[carriage + 1] != '\n') return carriage + 1;
    carriage = block.substr(0, end).find('\r', carriage + 1);
  }
  return end;
}

}  // namespace

std::string with_prefix(std::string_view block, std::string_view prefix, bool at_line_start) {
  std::string result;
  const auto lines = static_cast<std::size_t>(std::count(block.begin(), block.end(), '\n')) + 1;
  result.reserve(block.size() + lines * prefix.size());
  for (std::size_t from = 0; from < block.size();) {
    if (from > 0 || at_line_start) result += prefix;
    const std::size_t end = line_end(block, from);
    result += block.substr(from, end - from);
    from = end;
  }
  return result;
}

}  // namespace ddprun::launcher
