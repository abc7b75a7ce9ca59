#include "rendezvous/base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace ddprun {

void check_failed(const char* condition, std::string_view why, const char* file, int line) {
  fmt::print(stderr, "ddprun: broken invariant: {} ({}) at {}:{}; this is a bug in ddprun, please report it\n", why,
             condition, file, line);
  std::abort();
}

}  // namespace ddprun
