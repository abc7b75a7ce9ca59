#include "launcher/process/exit_status.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace ddprun::launcher {

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", abbreviation);
}

ExitStatus ExitStatus::from_waitid(int code, int value) {
  if (code == CLD_EXITED) return exited(value);
  DDPRUN_CHECK(code == CLD_KILLED || code == CLD_DUMPED, "waitid was asked for ends only");
  return killed(value, code == CLD_DUMPED);
}

std::string to_string(const ExitStatus& status) {
  if (!status.is_killed()) return fmt::format("exited with code {}", status.code());
  return fmt::format("was killed by {}{}", signal_name(status.signal()),
                     status.core_dumped() ? " (core dumped)" : "");
}

}  // namespace ddprun::launcher
