#include "worker/training/progress_line.h"

#include "worker/training/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::training {

std::string format_progress(const Progress& progress, std::size_t columns) {
  const std::int64_t steps = std::max<std::int64_t>(1, progress.steps);
  std::vector<std::string> parts{
      fmt::format("epoch {}/{}", progress.epoch, progress.epochs),
      fmt::format("{:3} %", 100 * progress.step / steps),
      fmt::format("step {}/{}", progress.step, progress.steps),
      fmt::format("loss {:.4f}", progress.loss),
  };
  if (progress.images_per_second > 0) {
    parts.push_back(fmt::format("{} images/s", with_thousands(std::llround(progress.images_per_second))));
  }
  std::string line;
  for (const std::string& part : parts) {
    const std::size_t gap = line.empty() ? 0 : 2;
    if (line.size() + gap + part.size() > columns) break;
    line.append(gap, ' ').append(part);
  }
  return line.empty() ? parts.front().substr(0, columns) : line;
}

}  // namespace ddprun::training
