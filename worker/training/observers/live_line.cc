#include "worker/training/observers/live_line.h"

#include "worker/training/observers/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::training {
namespace {

std::string in_gibibytes(std::int64_t bytes) {
  constexpr double kGibibyte = 1 << 30;
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGibibyte);
}

}  // namespace

std::string format_live_line(const LiveLine& live, std::size_t columns) {
  const std::int64_t steps = std::max<std::int64_t>(1, live.steps);
  std::vector<std::string> parts{
      fmt::format("epoch {}/{}", live.epoch, live.epochs),
      fmt::format("{:3} %", 100 * live.step / steps),
      fmt::format("step {}/{}", live.step, live.steps),
      "loss " + human_loss(live.loss),
  };
  if (live.rate > 0) {
    parts.push_back(fmt::format("{} {}/s", with_thousands(std::llround(live.rate)), live.unit));
  }
  if (live.seconds_left) parts.push_back(fmt::format("{} left", human_seconds(*live.seconds_left)));
  if (live.learning_rate > 0) parts.push_back(fmt::format("rate {:.2e}", live.learning_rate));
  // Where there is a GPU, its memory is the scarcer one.
  if (live.gpu_bytes > 0) parts.push_back("GPU " + in_gibibytes(live.gpu_bytes));
  if (live.memory_bytes > 0) parts.push_back(in_gibibytes(live.memory_bytes));
  std::string line;
  for (const std::string& part : parts) {
    const std::size_t gap = line.empty() ? 0 : 2;
    if (line.size() + gap + part.size() > columns) break;
    line.append(gap, ' ').append(part);
  }
  return line.empty() ? parts.front().substr(0, columns) : line;
}

}  // namespace ddprun::training
