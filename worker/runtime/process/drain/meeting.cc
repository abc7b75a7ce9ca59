#include "worker/runtime/process/drain/meeting.h"

#include "worker/runtime/comm/roll_call/await_keys.h"
#include "worker/runtime/comm/roll_call/store_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kSomeAreMissing = "-";

class Meeting {
 public:
  Meeting(c10d::Store& store, const std::string& prefix) : store_(store), prefix_(prefix) {}

  /// True for the last of `world_size` ranks.
  bool come(int rank, int world_size, std::int64_t step) {
    put_text(store_, key_of(rank), std::to_string(step));
    return store_.add(prefix_ + "/arrived", 1) == world_size;
  }

  std::string everyone(int world_size) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < world_size; ++rank) keys.push_back(key_of(rank));
    Attendance all{std::numeric_limits<std::int64_t>::max(), 0};
    for (const std::string& text : take_texts(store_, keys)) {
      const std::int64_t theirs = std::stoll(text);
      all = {std::min(all.first, theirs), std::max(all.last, theirs)};
    }
    return fmt::format("{} {}", all.first, all.last);
  }

  /// This verdict, unless another rank was faster: one for all.
  std::string settle(std::string_view verdict) {
    const std::vector<std::uint8_t> settled =
        store_.compareSet(verdict_key(), {}, std::vector<std::uint8_t>(verdict.begin(), verdict.end()));
    return {settled.begin(), settled.end()};
  }

  std::string hear(std::chrono::milliseconds timeout) {
    return await_keys(store_, {verdict_key()}, timeout) ? take_text(store_, verdict_key())
                                                        : settle(kSomeAreMissing);
  }

 private:
  [[nodiscard]] std::string key_of(int rank) const { return fmt::format("{}/step/{}", prefix_, rank); }
  [[nodiscard]] std::string verdict_key() const { return prefix_ + "/verdict"; }

  c10d::Store& store_;
  const std::string& prefix_;
};

}  // namespace

std::optional<Attendance> meet(c10d::Store& store, const std::string& prefix, int rank, int world_size,
                               std::int64_t step, std::chrono::milliseconds timeout) {
  Meeting meeting(store, prefix);
  const bool is_last = meeting.come(rank, world_size, step);
  const std::string verdict = is_last ? meeting.settle(meeting.everyone(world_size)) : meeting.hear(timeout);
  if (verdict == kSomeAreMissing) return std::nullopt;
  return Attendance{std::stoll(verdict), std::stoll(verdict.substr(verdict.find(' ')))};
}

}  // namespace ddprun::runtime
