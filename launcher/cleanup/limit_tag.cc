#include "launcher/cleanup/limit_tag.h"

#include "launcher/process/process_table.h"
#include "launcher/text/text.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>

namespace ddprun::launcher {
namespace {

// With fewer bits somebody's own choice might meet ours.
constexpr int kFewestBits = 48;

// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char character : text) {
    value ^= static_cast<unsigned char>(character);
    value *= 0x100000001b3U;
  }
  return value;
}

std::optional<rlim_t> consume_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  rlim_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::size_t word_end = std::min(text.find(' '), text.size());
  text.remove_prefix(word_end);
  if (error != std::errc{}) return std::nullopt;  // "unlimited"
  return value;
}

struct Locks {
  std::optional<rlim_t> soft;
  std::optional<rlim_t> hard;
};

Locks parse_locks(std::string_view limits) {
  std::string_view line = value_of(limits, "Max file locks");
  Locks locks;
  locks.soft = consume_number(line);
  locks.hard = consume_number(line);
  return locks;
}

}  // namespace

std::optional<rlimit> tag_limit(std::string_view tag, rlimit inherited) {
  const bool is_free = inherited.rlim_max == RLIM_INFINITY;
  // All numbers of so many bits are below the hard limit; the highest bit is always set.
  const int bits = is_free ? 63 : static_cast<int>(std::bit_width(inherited.rlim_max)) - 1;
  if (bits < kFewestBits) return std::nullopt;
  const rlim_t top = rlim_t{1} << (bits - 1);
  const rlim_t value = top | (hash(tag) & (top - 1));
  return rlimit{.rlim_cur = value, .rlim_max = is_free ? value : inherited.rlim_max};
}

std::optional<rlimit> usable_tag_limit(std::string_view tag) {
  rlimit inherited{};
  if (::getrlimit(RLIMIT_LOCKS, &inherited) != 0) return std::nullopt;
  const std::optional<rlimit> mark = tag_limit(tag, inherited);
  if (!mark) return std::nullopt;
  const rlimit trial{.rlim_cur = mark->rlim_cur, .rlim_max = inherited.rlim_max};
  if (::setrlimit(RLIMIT_LOCKS, &trial) != 0) return std::nullopt;
  const bool is_shown = limits_have_tag(read_limits(::getpid()), mark->rlim_cur);
  ::setrlimit(RLIMIT_LOCKS, &inherited);
  return is_shown ? mark : std::nullopt;
}

bool limits_have_tag(std::string_view limits, rlim_t value) {
  const auto [soft, hard] = parse_locks(limits);
  return soft == value || hard == value;
}

bool limits_may_be_inside(std::string_view limits, const rlimit& mark) {
  const auto [soft, hard] = parse_locks(limits);
  return soft && hard == mark.rlim_max && soft != hard;
}

std::string read_limits(pid_t pid) { return read_text(fmt::format("/proc/{}/limits", pid)); }

}  // namespace ddprun::launcher
