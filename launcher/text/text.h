#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// "64 MiB", "1.5 GiB", "512 B".
std::string format_bytes(std::uint64_t bytes);

/// What stands between the separators; one part, if there is none.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Lines without their ends; a carriage return separates like a newline does, so that of a progress bar only
/// the states remain. No empty line at the end.
std::vector<std::string_view> split_lines(std::string_view text);

/// The last `count` lines that are not empty.
std::vector<std::string_view> last_lines(std::string_view text, std::size_t count);

/// At most `longest` bytes, cut between characters and marked with "…".
std::string shorten(std::string_view text, std::size_t longest);

/// At most `longest` bytes and a mark "…", of both ends.
std::string shorten_middle(std::string_view text, std::size_t longest);

/// Without the blanks and line ends before and behind it.
std::string_view trim_blanks(std::string_view text);

/// What stands behind `name` at the beginning of a line, as in "TracerPid:\t0", "oom_kill 3", "Max file locks  5  7";
/// empty where no line begins so. For the files of /proc.
std::string_view value_of(std::string_view text, std::string_view name);

/// The number at its beginning; 0 where there is none.
std::uint64_t number_of(std::string_view text, std::string_view name, int base = 10);

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// rendezvous/base/printable.h, with tabs kept.
std::string printable(std::string_view line);

/// "rank 3" or "ranks 0-2, 5"; the numbers are ascending.
std::string rank_phrase(const std::vector<int>& ranks);

}  // namespace ddprun::launcher
