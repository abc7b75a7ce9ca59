#include "launcher/watch/tell_numbers.h"

#include "launcher/watch/nvml.h"
#include "launcher/watch/sample_json.h"
#include "launcher/watch/sampler.h"
#include "rendezvous/base/print.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher::watch {
void tell_numbers(pid_t launcher, int line) {
  constexpr int kIdleMs = 10'000;
  JobSampler sampler(launcher, {});
  for (;;) {
    pollfd wait{line, POLLIN, 0};
    std::uint64_t most_bytes = 0;
    if (::poll(&wait, 1, kIdleMs) <= 0) {
      if (is_reading_gpus()) continue;  // the thread that does would keep an ended process, and `line`, open
      return;
    }
    if (::recv(line, &most_bytes, sizeof most_bytes, MSG_WAITALL) != sizeof most_bytes) return;
    std::optional<JobSample> sample = sampler.sample();
    if (!sample) return;
    if (!has_seat(sample->state)) sample->ranks.clear();
    const std::string text = to_text(*sample, most_bytes);
    if (text.empty() || !print_all(line, text)) return;
  }
}

}  // namespace ddprun::launcher::watch
