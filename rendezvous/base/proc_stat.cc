#include "rendezvous/base/proc_stat.h"

#include "rendezvous/base/read_text.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ddprun {

std::string_view stat_field(std::string_view text, int number) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos) return {};
  text.remove_prefix(close + 1);
  for (int field = 3;; ++field) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    if (field >= number || word.empty()) return word;
    text.remove_prefix(word.size());
  }
}

std::uint64_t stat_number(std::string_view text, int number) {
  return std::strtoull(std::string(stat_field(text, number)).c_str(), nullptr, 10);
}

double seconds_of_ticks(std::uint64_t ticks) {
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t resident_bytes(const std::string& folder) {
  const std::string statm = read_text(folder + "/statm");
  const std::size_t space = statm.find(' ');
  if (space == std::string::npos) return 0;
  return std::strtoull(statm.c_str() + space, nullptr, 10) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace ddprun
