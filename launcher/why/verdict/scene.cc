#include "launcher/why/verdict/scene.h"

#include "launcher/text/number_list.h"
#include "launcher/why/facts/collective_text.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/straggler.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::why {
namespace {

constexpr double kNanosecond = 1e-9;

/// The longest time from one collective to the next that these ranks are used to; 0: not known.
double usual_distance(const JobPicture& picture) {
  double longest = 0;
  for (const RankFacts& facts : picture.ranks) {
    const std::vector<Collective>& entries = facts.recorder.entries;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i - 1].lingers) continue;
      longest = std::max(
          longest, static_cast<double>(entries[i].created_ns - entries[i - 1].created_ns) * kNanosecond);
    }
  }
  return longest;
}

bool has_moved(const RankFacts& facts) {
  if (facts.progress.beats != facts.progress_first.beats) return true;
  if (!facts.recorder.is_there || !facts.recorder_first.is_there) return false;
  return facts.recorder.next != facts.recorder_first.next ||
         pending(facts.recorder).size() != pending(facts.recorder_first).size();
}

/// Whether its call alone, without a stack, may be a wait for others: for a lock, of a socket, or of one who asks again
/// and again.
bool may_be_any_wait(const RankFacts& facts, Doing doing) {
  if (doing == Doing::kUnknown || doing == Doing::kSleeps) return true;
  if (doing != Doing::kBlocked) return false;
  const int call = facts.second.threads.front().call.number;
  return !facts.object.path.starts_with('/') && !is_wait_for_child(call) && !is_file_lock(call);
}

/// By a group's name, as whose members it was told.
using MembersTold = std::map<std::string, std::set<std::string>>;

MembersTold members_told(const JobPicture& picture) {
  MembersTold told;
  for (const RankFacts& facts : picture.ranks) {
    for (const Membership& group : facts.recorder.memberships) {
      if (!group.ranks.empty()) told[group.group].insert(group.ranks);
    }
  }
  return told;
}

/// Who does not tell its members is in the only one of that name.
std::string members_of(const std::string& group, const RankFacts& facts, const MembersTold& told) {
  for (const Membership& own : facts.recorder.memberships) {
    if (own.group == group && !own.ranks.empty()) return own.ranks;
  }
  const auto found = told.find(group);
  return found != told.end() && found->second.size() == 1 ? *found->second.begin() : std::string();
}

}  // namespace

std::int64_t Scene::Group::awaited() const {
  std::int64_t highest = 0;
  for (const auto& [rank, by_number] : entries) {
    for (const auto& [sequence, entry] : by_number) {
      if (!entry->is_over) highest = std::max(highest, sequence);
    }
  }
  return highest;
}

std::int64_t Scene::Group::last_entered(int rank) const {
  const auto found = entries.find(rank);
  const auto told = newest.find(rank);
  return std::max(found == entries.end() || found->second.empty() ? 0 : found->second.rbegin()->first,
                  told == newest.end() ? 0 : told->second);
}

const Collective* Scene::Group::first_open(int rank) const {
  const auto found = entries.find(rank);
  if (found == entries.end()) return nullptr;
  const auto open = std::find_if(found->second.begin(), found->second.end(),
                                 [](const auto& e) { return !e.second->is_over; });
  return open == found->second.end() ? nullptr : open->second;
}

Scene::Scene(const JobPicture& picture) : picture_(picture) {
  for (const RankFacts& facts : picture.ranks) {
    facts_[facts.rank] = &facts;
    Activity& activity = activities_[facts.rank] = activity_of(facts);
    if (activity.words.empty() && !waits_in(facts.rank).empty())
      activity.words = "waits in " + waits_in(facts.rank);
  }
  gather_groups();
}

void Scene::gather_groups() {
  const MembersTold told = members_told(picture_);
  std::set<std::string> backends;
  for (const RankFacts& facts : picture_.ranks) {
    for (const Collective& entry : facts.recorder.entries) {
      if (!entry.backend.empty()) backends.insert(entry.backend);
    }
  }
  // A node with an older ddprun tells none: then it is the one that the others use.
  const auto told_backend = [&](const std::string& backend) {
    return backend.empty() && backends.size() == 1 ? *backends.begin() : backend;
  };
  for (const RankFacts& facts : picture_.ranks) {
    for (const Membership& own : facts.recorder.memberships) {
      for (const auto& [backend, newest] : own.newest) {
        Group& group = groups_[{own.group, members_of(own.group, facts, told), told_backend(backend)}];
        std::int64_t& last = group.newest[facts.rank];
        last = std::max(last, newest);
        group.members.insert(facts.rank);
      }
    }
    for (const Collective& entry : facts.recorder.entries) {
      if (entry.is_peer) continue;  // it has no place among those of all ranks
      groups_[{entry.group, members_of(entry.group, facts, told), told_backend(entry.backend)}].add(
          facts.rank, entry);
    }
  }
  for (auto& [name, group] : groups_) {
    group.forget_the_one_before();
    const auto found = told.find(name.name);
    if (!is_world(name.name) || (found != told.end() && found->second.size() > 1)) continue;
    for (const RankFacts& facts : picture_.ranks) group.members.insert(facts.rank);
  }
}

void Scene::Group::add(int rank, const Collective& entry) {
  members.insert(rank);
  auto& own = entries[rank];
  if (!own.empty() && own.rbegin()->first > entry.sequence && own.rbegin()->second->id < entry.id) {
    const Collective* const last = own.rbegin()->second;
    if (before == nullptr || before->created_ns < last->created_ns) before = last;
    own.clear();
  }
  own[entry.sequence] = &entry;
}

void Scene::Group::forget_the_one_before() {
  if (before == nullptr) return;
  std::erase_if(entries, [&](const auto& of_rank) {
    const Collective& oldest = *of_rank.second.begin()->second;
    const Collective& latest = *of_rank.second.rbegin()->second;
    // Who shows the first one, begun after the end of the group before, is in this one.
    const bool may_be_of_before = oldest.sequence > 1 || oldest.created_ns <= before->created_ns;
    const bool is_of_before =
        latest.created_ns <= before->created_ns || (latest.sequence == before->sequence && may_be_of_before);
    if (is_of_before) newest.erase(of_rank.first);
    return is_of_before;
  });
}

std::string Scene::waits_in(int rank) const {
  const std::vector<Collective> open = pending(facts(rank).recorder);
  return open.empty() ? std::string() : describe(open.front());
}

Ranks Scene::ranks_that(bool (*condition)(Doing)) const {
  Ranks found;
  for (const auto& [rank, activity] : activities_) {
    if (condition(activity.doing)) found.insert(rank);
  }
  return found;
}

Ranks Scene::ranks_that(bool (*condition)(const Activity&)) const {
  Ranks found;
  for (const auto& [rank, activity] : activities_) {
    if (condition(activity)) found.insert(rank);
  }
  return found;
}

Ranks Scene::unread() const {
  Ranks found;
  for (const RankFacts& facts : picture_.ranks) {
    if (!was_read(facts)) found.insert(facts.rank);
  }
  return found;
}

Ranks Scene::unclear() const {
  Ranks found = unseen();
  for (const RankFacts& facts : picture_.ranks) {
    const Doing doing = activity(facts.rank).doing;
    const bool is_shown = doing != Doing::kUnknown && !(facts.native.empty() && facts.python.empty());
    // Over NCCL who waits spins, and what it waits in only the recorder tells.
    const bool may_spin = doing == Doing::kComputes && has_nccl(facts.second) && !facts.recorder.is_there;
    if (!was_read(facts) || may_spin || (may_be_any_wait(facts, doing) && !is_shown))
      found.insert(facts.rank);
  }
  return found;
}

bool Scene::gets_messages(const RankFacts& to) const {
  return std::any_of(to.connections.begin(), to.connections.end(), [&](const Connection& connection) {
    if (connection.came == 0) return false;
    const int from = rank_at(connection.remote);
    if (from < 0 || from == to.rank) return false;
    const bool may_be_nccls = has_nccl(to.second) || has_nccl(facts(from).second);
    return !may_be_nccls || is_more_than_signs_of_life(connection.came, to.second.at_s - to.first.at_s);
  });
}

bool Scene::has_progress(int rank) const { return has_moved(facts(rank)) || gets_messages(facts(rank)); }

bool Scene::has_progress() const {
  return std::any_of(picture_.ranks.begin(), picture_.ranks.end(),
                     [&](const RankFacts& facts) { return has_progress(facts.rank); });
}

bool Scene::has_progress(const Ranks& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return has_progress(rank); });
}

double Scene::age_s(const Collective& entry) const {
  return static_cast<double>(picture_.taken_ns - entry.created_ns) * kNanosecond;
}

double Scene::moved_s() const {
  if (has_progress()) return 0;
  std::optional<double> moved;
  for (const RankFacts& facts : picture_.ranks) {
    if (facts.quiet_s >= 0) moved = std::min(facts.quiet_s, moved.value_or(facts.quiet_s));
    for (const Collective& entry : facts.recorder.entries) {
      const double age = age_s(entry);
      moved = std::min(age, moved.value_or(age));
    }
  }
  return moved ? std::max(0.0, *moved) : -1;
}

double Scene::waited_by(const Ranks& ranks) const {
  std::optional<double> shortest;
  for (const int rank : ranks) {
    const std::vector<Collective> open = pending(facts(rank).recorder);
    if (open.empty()) continue;
    const double waited = age_s(open.front());
    shortest = std::min(waited, shortest.value_or(waited));
  }
  return shortest ? std::max(0.0, *shortest) : -1;
}

bool Scene::is_usual(double waited_s) const {
  return waited_s >= 0 && waited_s < longest_usual_wait(usual_distance(picture_));
}

std::map<int, Ranks> Scene::waits_for() const {
  std::map<int, Ranks> edges;
  for (const auto& [name, group] : groups_) {
    const std::int64_t highest = group.awaited();
    if (highest == 0) continue;
    for (const int late : group.members) {
      if (group.last_entered(late) >= highest || !knows(late, group)) continue;
      // Who is in an earlier one of the group itself, in which nobody is missing, will come when that gets on.
      if (group.is_waiting(late)) continue;
      for (const int waiting : group.members) {
        if (waiting != late && group.is_waiting(waiting) &&
            group.last_entered(waiting) > group.last_entered(late))
          edges[waiting].insert(late);
      }
    }
  }
  return edges;
}

double Scene::left_s(int rank) const {
  std::optional<double> newest;
  for (const Collective& entry : facts(rank).recorder.entries) {
    const double age = age_s(entry);
    if (entry.is_over) newest = std::min(age, newest.value_or(age));
  }
  return newest ? std::max(0.0, *newest) : -1;
}

double Scene::newest_wait_s(int rank) const {
  double newest = -1;
  for (const Collective& open : pending(facts(rank).recorder)) {
    const double waited = age_s(open);
    if (newest < 0 || waited < newest) newest = std::max(0.0, waited);
  }
  return newest;
}

// A look takes a second, and what comes every other second is seen by it or not. But nobody shall wait for long to be
// told of a hang.
constexpr double kJustNow = 10;
constexpr double kLately = 60;

bool Scene::was_just_in_one(int rank) const {
  const double left = left_s(rank);
  return left >= 0 && left < kJustNow && is_usual(left);
}

bool Scene::has_got_on_since(double waited, int rank) const {
  const double left = left_s(rank);
  return left >= 0 && left < std::min(kLately, waited / 2);
}

std::map<int, Ranks> Scene::without_progress(std::map<int, Ranks> waits_for) const {
  std::erase_if(waits_for, [&, edges = waits_for](const auto& wait) {
    std::vector<int> chain{wait.first};
    Ranks met{wait.first};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const auto found = edges.find(chain[i]);
      if (found == edges.end()) continue;
      for (const int next : found->second) {
        if (met.insert(next).second) chain.push_back(next);
      }
    }
    const double waited = newest_wait_s(wait.first);
    return has_progress(met) || std::any_of(met.begin(), met.end(), [&](int rank) {
             return !edges.contains(rank) && has_got_on_since(waited, rank);
           });
  });
  return waits_for;
}

std::vector<std::map<int, Ranks>> Scene::parts_of(const std::map<int, Ranks>& waits_for) {
  struct Part {
    Ranks ranks;
    std::map<int, Ranks> edges;
  };
  std::vector<Part> parts;
  for (const auto& [rank, late] : waits_for) {
    Part whole{.ranks = late, .edges = {{rank, late}}};
    whole.ranks.insert(rank);
    const auto touches = [&](const Part& part) {
      return std::any_of(whole.ranks.begin(), whole.ranks.end(),
                         [&](int one) { return part.ranks.contains(one); });
    };
    const auto joined =
        std::partition(parts.begin(), parts.end(), [&](const Part& part) { return !touches(part); });
    std::for_each(joined, parts.end(), [&](Part& part) {
      whole.ranks.merge(part.ranks);
      whole.edges.merge(part.edges);
    });
    parts.erase(joined, parts.end());
    parts.push_back(std::move(whole));
  }
  std::vector<std::map<int, Ranks>> found;
  for (Part& part : parts) found.push_back(std::move(part.edges));
  return found;
}

Ranks Scene::missing_among(const Ranks& ranks) const {
  Ranks missing;
  for (const auto& [name, group] : groups_) {
    if (group.awaited() == 0) continue;
    for (const int rank : ranks) {
      if (group.members.contains(rank) || is_in_number_list(name.members, rank)) missing.insert(rank);
    }
  }
  return missing;
}

Ranks Scene::waiting_or_spinning() const {
  Ranks found = ranks_that(waits);
  for (const int rank : ranks_that([](Doing doing) { return doing == Doing::kWaitsForGpu; })) {
    const std::vector<Collective> open = pending(facts(rank).recorder);
    // A message may have been begun before it is waited for, though not for ever.
    constexpr double kEarly = 60;
    const bool may_be_early = !open.empty() && open.front().is_peer && !activity(rank).is_in_synchronize &&
                              age_s(open.front()) < kEarly;
    if (!open.empty() && open.front().backend == kNccl && !may_be_early) found.insert(rank);
  }
  return found;
}

Ranks Scene::wait_for_any(const Ranks& ranks) const {
  Ranks found;
  for (const int rank : ranks) {
    const std::vector<Collective> open = pending(facts(rank).recorder);
    const bool is_message =
        std::any_of(open.begin(), open.end(), [](const Collective& entry) { return entry.is_peer; });
    if (open.empty() || is_message) found.insert(rank);
  }
  return found;
}

Ranks Scene::may_be_awaited(const Ranks& ranks, const Ranks& waiting) const {
  if (!wait_for_any(waiting).empty()) return ranks;
  Ranks awaited;
  for (const auto& [name, group] : groups_) {
    if (group.awaited() == 0) continue;
    for (const int rank : ranks) {
      // A member may have forgotten that it is in it.
      const bool tells = name.members.empty() || group.members.contains(rank);
      if (tells && facts_.contains(rank) && knows(rank, group)) continue;
      if (name.members.empty() || is_in_number_list(name.members, rank)) awaited.insert(rank);
    }
  }
  return awaited;
}

bool Scene::knows(int rank, const Group& group) const {
  const Recorder& recorder = facts(rank).recorder;
  if (facts(rank).pid == 0) return false;
  return recorder.problem.empty() ? recorder.is_there : group.entries.contains(rank);
}

Ranks Scene::unseen() const {
  Ranks ranks;
  for (int rank = 0; rank < picture_.world_size; ++rank) {
    if (!facts_.contains(rank)) ranks.insert(rank);
  }
  return ranks;
}

int Scene::rank_at(const std::string& address) const {
  for (const RankFacts& facts : picture_.ranks) {
    for (const Connection& connection : facts.connections) {
      if (connection.local == address) return facts.rank;
    }
  }
  return -1;
}

}  // namespace ddprun::launcher::why
