#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace ddprun {
namespace {

/// Linux's numbers. The C library's own table, sigabbrev_np(), is younger than the libraries that ddprun runs with.
constexpr std::array<std::string_view, 32> kSignals{
    "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};

}  // namespace

std::string signal_name(int signal) {
  if (signal <= 0 || static_cast<std::size_t>(signal) >= kSignals.size())
    return fmt::format("signal {}", signal);
  return fmt::format("SIG{}", kSignals[static_cast<std::size_t>(signal)]);
}

}  // namespace ddprun
