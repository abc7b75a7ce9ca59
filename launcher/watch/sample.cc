#include "launcher/watch/sample.h"

#include "launcher/why/verdict/doing.h"
#include "launcher/why/verdict/straggler.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun::launcher::watch {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr double kComputes = 0.3;

std::string_view state_words(const std::string& state) {
  static const std::map<std::string, std::string_view> kWords{
      {"R", "runs"}, {"S", "sleeps"}, {"D", "waits for a disk"}, {"T", "stopped"}, {"t", "traced"}};
  const auto found = kWords.find(state);
  return found == kWords.end() ? "ended" : found->second;
}

/// The same process in the sample before; null: it was not there.
const RankSample* same_rank(const JobSample* before, const RankSample& rank) {
  if (before == nullptr) return nullptr;
  const auto found = std::find_if(before->ranks.begin(), before->ranks.end(), [&](const RankSample& other) {
    return other.rank == rank.rank && other.pid == rank.pid;
  });
  return found == before->ranks.end() ? nullptr : &*found;
}

void compare(RankNumbers& numbers, const RankSample& now, const RankSample& before, double seconds) {
  if (seconds <= 0) return;
  numbers.cpu_share = std::max(0.0, now.cpu_s - before.cpu_s) / seconds;
  if (now.recorder.is_there && before.recorder.is_there && now.recorder.next >= before.recorder.next)
    numbers.collectives_per_s = static_cast<double>(now.recorder.next - before.recorder.next) / seconds;
  if (before.progress.step >= 0 && now.progress.step >= before.progress.step)
    numbers.steps_per_s = static_cast<double>(now.progress.step - before.progress.step) / seconds;
}

std::string doing_words(const RankNumbers& numbers, const RankSample& rank,
                        const std::vector<why::Collective>& open) {
  if (rank.pid == 0) return "ended";
  const bool is_held = rank.state == "T" || rank.state == "t" || rank.state == "D";
  if (is_held) return std::string(state_words(rank.state));
  if (!open.empty())
    return fmt::format("{} {}", open.front().operation,
                       format_duration(std::chrono::duration<double>(numbers.in_collective_s)));
  if (!rank.progress.phase.empty()) return rank.progress.phase;
  if (numbers.cpu_share.value_or(0) > kComputes) return "computes";
  return std::string(state_words(rank.state));
}

}  // namespace

bool has_seat(const PublishedJob& state) {
  constexpr std::array<std::string_view, 3> kPhases{"running", "stopping", "waiting"};
  return state.world_size > 0 && std::find(kPhases.begin(), kPhases.end(), state.phase) != kPhases.end();
}

std::vector<RankNumbers> numbers_of(const JobSample& now, const JobSample* before) {
  why::JobPicture picture;
  for (const RankSample& rank : now.ranks) {
    why::RankFacts& facts = picture.ranks.emplace_back();
    facts.rank = rank.rank;
    facts.recorder = rank.recorder;
  }
  const std::map<int, double> late = why::lateness_of(picture);
  std::vector<RankNumbers> rows;
  for (const RankSample& rank : now.ranks) {
    RankNumbers& numbers = rows.emplace_back();
    if (rank.recorder.is_there && rank.recorder.next > 0) numbers.collectives = rank.recorder.next;
    if (const RankSample* const earlier = same_rank(before, rank))
      compare(numbers, rank, *earlier, now.at_s - before->at_s);
    const std::vector<why::Collective> open = why::pending(rank.recorder);
    if (!open.empty())
      numbers.in_collective_s =
          std::max(0.0, static_cast<double>(now.taken_ns - open.front().created_ns) * kNanosecond);
    if (const auto found = late.find(rank.rank); found != late.end()) numbers.late_s = found->second;
    numbers.doing = doing_words(numbers, rank, open);
  }
  return rows;
}

}  // namespace ddprun::launcher::watch
