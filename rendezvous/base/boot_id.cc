#include "rendezvous/base/boot_id.h"

#include "rendezvous/base/read_text.h"

namespace ddprun {

std::string boot_id() {
  const std::string text = read_text("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

}  // namespace ddprun
