#include "launcher/why/facts/fit.h"

#include "launcher/why/facts/facts_json.h"

#include <algorithm>
#include <array>

namespace ddprun::launcher::why {
namespace {

/// The newest, and those that linger, which are few.
void keep_entries(Recorder& recorder, std::size_t most) {
  std::vector<Collective>& entries = recorder.entries;
  const auto lingering =
      std::count_if(entries.begin(), entries.end(), [](const Collective& one) { return one.lingers; });
  std::size_t left_out = entries.size() - static_cast<std::size_t>(lingering);
  left_out = left_out > most ? left_out - most : 0;
  std::erase_if(entries,
                [&](const Collective& one) { return !one.lingers && left_out > 0 && left_out-- > 0; });
}

template <class T>
void keep_first(std::vector<T>& all, std::size_t most) {
  if (all.size() > most) all.erase(all.begin() + static_cast<std::ptrdiff_t>(most), all.end());
}

void leave_out_sources(RankFacts& facts) {
  for (PythonThread& thread : facts.python) {
    for (Frame& frame : thread.frames) frame.source.clear();
  }
}

/// Of the threads of the second look those by which it is told what the rank does go first: the main one, the one that
/// ran or wanted to run the longest, and one of NCCL's.
std::vector<int> told_first(const RankFacts& facts) {
  const ThreadLook* busiest = nullptr;
  double most = 0;
  for (const ThreadLook& now : facts.second.threads) {
    const auto before = std::find_if(facts.first.threads.begin(), facts.first.threads.end(),
                                     [&](const ThreadLook& thread) { return thread.tid == now.tid; });
    if (before == facts.first.threads.end()) continue;
    const double ran_s = now.cpu_s - before->cpu_s + now.queued_s - before->queued_s;
    if (ran_s > most) {
      most = ran_s;
      busiest = &now;
    }
  }
  std::vector<int> tids;
  if (!facts.second.threads.empty()) tids.push_back(facts.second.threads.front().tid);
  if (busiest != nullptr) tids.push_back(busiest->tid);
  const auto nccls = std::find_if(facts.second.threads.begin(), facts.second.threads.end(), is_nccls);
  if (nccls != facts.second.threads.end()) tids.push_back(nccls->tid);
  return tids;
}

void keep_threads(RankFacts& facts, std::size_t most) {
  const std::vector<int> tids = told_first(facts);
  for (ProcessLook* const look : {&facts.first, &facts.second}) {
    std::stable_partition(look->threads.begin(), look->threads.end(), [&](const ThreadLook& thread) {
      return std::find(tids.begin(), tids.end(), thread.tid) != tids.end();
    });
    keep_first(look->threads, most);
  }
}

/// Each leaves out more than the one before.
constexpr std::array<void (*)(RankFacts&), 7> kSteps{[](RankFacts& facts) {
                                                       keep_first(facts.connections, 64);
                                                       keep_first(facts.launcher_connections, 8);
                                                       keep_first(facts.children, 16);
                                                       keep_first(facts.file_servers, 4);
                                                     },
                                                     [](RankFacts& facts) {
                                                       keep_entries(facts.recorder, 24);
                                                       keep_entries(facts.recorder_first, 24);
                                                       keep_first(facts.native, 16);
                                                       keep_first(facts.python, 8);
                                                     },
                                                     [](RankFacts& facts) {
                                                       keep_threads(facts, 32);
                                                       keep_first(facts.connections, 8);
                                                       keep_first(facts.children, 4);
                                                     },
                                                     [](RankFacts& facts) {
                                                       keep_entries(facts.recorder, 8);
                                                       keep_entries(facts.recorder_first, 8);
                                                       // Of a group that is not told nobody is accused.
                                                       facts.recorder.memberships.clear();
                                                       keep_first(facts.native, 4);
                                                       keep_first(facts.python, 1);
                                                     },
                                                     [](RankFacts& facts) {
                                                       keep_threads(facts, 4);
                                                       leave_out_sources(facts);
                                                       facts.connections.clear();
                                                       facts.launcher_connections.clear();
                                                       facts.children.clear();
                                                     },
                                                     [](RankFacts& facts) {
                                                       keep_entries(facts.recorder, 2);
                                                       keep_entries(facts.recorder_first, 2);
                                                       keep_threads(facts, 3);
                                                       facts.native.clear();
                                                       for (PythonThread& thread : facts.python)
                                                         keep_first(thread.frames, 4);
                                                     },
                                                     [](RankFacts& facts) { keep_threads(facts, 1); }};

}  // namespace

RankFacts fit(RankFacts facts, std::size_t most_bytes) {
  if (to_text(facts).size() <= most_bytes) return facts;
  if (facts.problem.empty()) facts.problem = "not all that was seen of it fitted into the answer of its node";
  for (const auto& step : kSteps) {
    step(facts);
    if (to_text(facts).size() <= most_bytes) return facts;
  }
  return {.rank = facts.rank,
          .local_rank = facts.local_rank,
          .pid = facts.pid,
          .siblings = facts.siblings,
          .ended_with_0 = facts.ended_with_0,
          .host = facts.host.substr(0, 64),
          .problem = facts.problem.substr(0, 256),
          .quiet_s = facts.quiet_s};
}

}  // namespace ddprun::launcher::why
