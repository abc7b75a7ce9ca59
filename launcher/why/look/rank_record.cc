#include "launcher/why/look/rank_record.h"

#include "launcher/why/look/flight_recorder.h"
#include "launcher/why/look/proc_look.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// By CLOCK_REALTIME, as entries have it, to two ticks of the clock by which the kernel tells it.
std::int64_t begin_of_process(pid_t pid) {
  const auto in_ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t booted = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec - in_ns(boot_time());
  return booted + in_ns(static_cast<double>(start_of(pid)) * tick + 2 * tick);
}

void sort_by_time(std::vector<Collective>& entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Collective& a, const Collective& b) { return a.created_ns < b.created_ns; });
}

}  // namespace

void RankRecord::search() {
  if (page_ && !page_->is_current()) {
    page_.reset();
    places_ = {};
  }
  if (places_.recorders.empty()) places_ = find_recorders(pid_);
  if (!page_) page_ = ProgressLook::find(pid_);
}

bool RankRecord::has_own() const {
  if (page_ && (page_->progress().beats > 0 || page_->recorder(1).next > 0)) return true;
  if (!memory_.problem().empty()) return false;
  return std::any_of(places_.recorders.begin(), places_.recorders.end(), [&](const RecorderPlace& place) {
    const Recorder newest = read_recorder(memory_.reader(), place, 1);
    return !newest.entries.empty() && newest.entries.back().created_ns > begin_of_process(pid_);
  });
}

Recorder RankRecord::read(std::size_t most) const {
  std::vector<Recorder> all;
  if (memory_.problem().empty()) {
    for (const RecorderPlace& place : places_.recorders)
      all.push_back(read_recorder(memory_.reader(), place, most));
  } else {
    all.push_back({.problem = memory_.problem()});
  }
  if (page_) all.push_back(page_->recorder(most));
  return merged(std::move(all));
}

Recorder RankRecord::read_with_lingering(std::size_t most) const {
  Recorder whole = read(most);
  if (!memory_.problem().empty()) return whole;
  for (const RecorderPlace& place : places_.recorders) {
    for (Collective& one : read_lingering(memory_.reader(), place, most)) {
      // It may have been read already, if others have ended meanwhile.
      const bool is_known = std::any_of(
          whole.entries.begin(), whole.entries.end(),
          [&](const Collective& known) { return known.id == one.id && known.backend == one.backend; });
      if (!is_known) whole.entries.push_back(std::move(one));
    }
  }
  sort_by_time(whole.entries);
  return whole;
}

std::vector<Membership> RankRecord::memberships() const {
  std::vector<Membership> all;
  if (memory_.problem().empty()) all = read_memberships(memory_.reader(), places_);
  if (!page_) return all;
  for (Membership& told : page_->memberships()) {
    const auto known = std::find_if(all.begin(), all.end(),
                                    [&](const Membership& group) { return group.group == told.group; });
    if (known == all.end()) {
      all.push_back(std::move(told));
    } else {
      known->newest.merge(told.newest);
    }
  }
  return all;
}

RankProgress RankRecord::progress() const { return page_ ? page_->progress() : RankProgress(); }

Recorder merged(std::vector<Recorder> recorders) {
  Recorder whole;
  std::int64_t complete_from = 0;
  for (Recorder& one : recorders) {
    whole.is_there = whole.is_there || one.is_there;
    if (whole.problem.empty()) whole.problem = std::move(one.problem);
    whole.next += one.next;
    if (!one.entries.empty() && one.next > one.entries.size())
      complete_from = std::max(complete_from, one.entries.front().created_ns);
    std::move(one.entries.begin(), one.entries.end(), std::back_inserter(whole.entries));
  }
  std::erase_if(whole.entries,
                [&](const Collective& entry) { return entry.is_over && entry.created_ns < complete_from; });
  sort_by_time(whole.entries);
  return whole;
}

}  // namespace ddprun::launcher::why
