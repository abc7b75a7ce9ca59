#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>

#include <cstring>

namespace ddprun {

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", abbreviation);
}

}  // namespace ddprun
