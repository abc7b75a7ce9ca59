#include "rendezvous/base/exit_status.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>

namespace ddprun {

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

}  // namespace ddprun
