#include "worker/training/observers/live_line.h"

#include "worker/training/observers/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::training {
namespace {

/// From the fullest to the shortest.
enum class Wording { kFull, kWithoutShare, kShort, kTerse };

std::string in_gibibytes(std::int64_t bytes, Wording wording) {
  constexpr double kGibibyte = 1 << 30;
  return fmt::format("{:.1f}{}", static_cast<double>(bytes) / kGibibyte,
                     wording == Wording::kTerse ? "G" : " GiB");
}

std::vector<std::string> parts_of(const LiveLine& live, Wording wording) {
  const bool is_short = wording >= Wording::kShort;
  const bool is_terse = wording == Wording::kTerse;
  std::vector<std::string> parts{fmt::format("{} {}/{}", is_terse ? "ep" : "epoch", live.epoch, live.epochs)};
  if (wording == Wording::kFull)
    parts.push_back(fmt::format("{:3} %", 100 * live.step / std::max<std::int64_t>(1, live.steps)));
  parts.push_back(fmt::format("step {}/{}", live.step, std::max<std::int64_t>(1, live.steps)));
  parts.push_back("loss " + human_loss(live.loss));
  if (live.rate > 0)
    parts.push_back(
        fmt::format("{}{}/s", with_thousands(std::llround(live.rate)), is_short ? "" : " " + live.unit));
  if (live.seconds_left) parts.push_back(fmt::format("{} left", human_seconds(*live.seconds_left)));
  if (live.learning_rate > 0)
    parts.push_back(
        fmt::format("{} {:.{}e}", is_short ? "lr" : "rate", live.learning_rate, is_terse ? 1 : 2));
  // Where there is a GPU, its memory is the scarcer one.
  if (live.gpu_bytes > 0) parts.push_back("GPU " + in_gibibytes(live.gpu_bytes, wording));
  if (live.memory_bytes > 0) parts.push_back(in_gibibytes(live.memory_bytes, wording));
  return parts;
}

}  // namespace

std::string format_live_line(const LiveLine& live, std::size_t columns) {
  for (const Wording wording : {Wording::kFull, Wording::kWithoutShare, Wording::kShort}) {
    std::string line = fmt::format("{}", fmt::join(parts_of(live, wording), "  "));
    if (line.size() <= columns) return line;
  }
  std::string line;
  for (const std::string& part : parts_of(live, Wording::kTerse)) {
    if (line.empty()) {
      line = part.substr(0, columns);
    } else if (line.size() + 1 + part.size() > columns) {
      break;
    } else {
      line += " " + part;
    }
  }
  return line;
}

}  // namespace ddprun::training
