#pragma once

#include <string_view>

namespace ddprun {

/// Prints "ddprun: broken invariant: …" with the place and aborts. Use DDPRUN_CHECK.
[[noreturn]] void check_failed(const char* condition, std::string_view why, const char* file, int line);

}  // namespace ddprun

/// States what must hold whatever a user, a peer or the machine does; when it does not, the process stops here.
#define DDPRUN_CHECK(condition, why)                                                  \
  do {                                                                                \
    if (!(condition)) ::ddprun::check_failed(#condition, (why), __FILE__, __LINE__);  \
  } while (false)
