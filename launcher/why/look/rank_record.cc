#include "launcher/why/look/rank_record.h"

#include "launcher/why/look/flight_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun::launcher::why {

void RankRecord::search() {
  if (page_ && !page_->is_current()) {
    page_.reset();
    places_ = {};
  }
  if (places_.recorders.empty()) places_ = find_recorders(pid_);
  if (!page_) page_ = ProgressLook::find(pid_);
}

Recorder RankRecord::read_recorders(std::size_t most) const {
  Recorder empty;
  if (!memory_.problem().empty()) {
    empty.problem = memory_.problem();
    return empty;
  }
  for (const std::uint64_t place : places_.recorders) {
    Recorder recorder = read_recorder(memory_.reader(), place, most);
    if (recorder.next > 0 || !recorder.problem.empty()) return recorder;
    empty = std::move(recorder);
  }
  return empty;
}

Recorder RankRecord::read(std::size_t most) const {
  Recorder whole = read_recorders(most);
  if (!page_) return whole;
  Recorder page = page_->recorder(most);
  if (whole.next == 0) {
    page.problem = std::move(whole.problem);
    return page;
  }
  whole.next += page.next;
  std::move(page.entries.begin(), page.entries.end(), std::back_inserter(whole.entries));
  std::stable_sort(whole.entries.begin(), whole.entries.end(),
                   [](const Collective& a, const Collective& b) { return a.created_ns < b.created_ns; });
  if (whole.entries.size() > most)
    whole.entries.erase(whole.entries.begin(), whole.entries.end() - static_cast<std::ptrdiff_t>(most));
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
      known->last = std::max(known->last, told.last);
    }
  }
  return all;
}

RankProgress RankRecord::progress() const { return page_ ? page_->progress() : RankProgress(); }

}  // namespace ddprun::launcher::why
