#include "worker/commands/output.h"

#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "worker/training/observers/text.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddprun::commands {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kUnbroken = 1'000'000;
constexpr std::size_t kNarrowestText = 24;  ///< of the second column
constexpr std::size_t kHanging = 4;

/// How many columns UTF-8 takes, where every character takes one.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The words of `text` in lines up to `columns`; each but the first begins at `column`, where that one stands.
std::string wrapped(std::string_view text, std::size_t column, std::size_t columns) {
  std::string lines;
  std::size_t at = column;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (at > column) {
      const bool fits = at + 1 + width_of(word) <= columns;
      lines += fits ? " " : fmt::format("\n{:{}}", "", column);
      at = fits ? at + 1 : column;
    }
    lines += word;
    at += width_of(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines + '\n';
}

}  // namespace

void print(std::string_view text) {
  errno = 0;
  if (print_all(STDOUT_FILENO, text)) return;
  if (errno == EPIPE || errno == 0) throw NobodyReads();
  throw Exception(ErrorCode::kOs, fmt::format("cannot write to stdout: {}", std::strerror(errno)));
}

void print_error(std::string_view text) { print_all(STDERR_FILENO, text); }

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

std::size_t columns_of(int fd) {
  if (!is_terminal(fd)) return kUnbroken;
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, std::size_t indent,
                        std::size_t columns) {
  std::size_t names = 0;
  for (const auto& [name, text] : rows) names = std::max(names, width_of(name));
  const std::size_t column = indent + names + 2;
  const bool is_narrow = columns < column + kNarrowestText;
  std::string lines;
  for (const auto& [name, text] : rows) {
    lines += fmt::format("{:{}}{}", "", indent, name);
    lines += is_narrow ? fmt::format("\n{:{}}", "", indent + kHanging)
                       : fmt::format("{:{}}", "", column - indent - width_of(name));
    lines += wrapped(text, is_narrow ? indent + kHanging : column, columns);
  }
  return lines;
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}", training::with_thousands(count),
                     count == 1 ? what.substr(0, what.size() - 1) : what);
}

}  // namespace ddprun::commands
