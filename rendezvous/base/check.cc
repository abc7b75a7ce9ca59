#include "rendezvous/base/check.h"

#include "rendezvous/base/print.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace ddprun {

void check_failed(const char* condition, std::string_view why, const char* file, int line) {
  print_all(STDERR_FILENO, fmt::format("ddprun: broken invariant: {} ({}) at {}:{}; this is a bug in ddprun, please report it\n", why,
             condition, file, line));
  std::abort();
}

}  // namespace ddprun
