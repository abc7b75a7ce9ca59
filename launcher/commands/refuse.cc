#include "launcher/commands/refuse.h"

#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace ddprun::launcher {

int refuse(const Error& error) {
  print_all(STDERR_FILENO,
            fmt::format("ddprun: {}\n", ddprun::printable(error.message(), std::string::npos)));
  return to_exit_code(error.code());
}

}  // namespace ddprun::launcher
