#include "launcher/why/facts/fit.h"

#include "launcher/why/facts/facts_json.h"

#include <algorithm>
#include <array>

namespace ddprun::launcher::why {
namespace {

/// The newest.
void keep_entries(Recorder& recorder, std::size_t most) {
  if (recorder.entries.size() > most)
    recorder.entries.erase(recorder.entries.begin(),
                           recorder.entries.end() - static_cast<std::ptrdiff_t>(most));
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

void keep_threads(RankFacts& facts, std::size_t most) {
  keep_first(facts.first.threads, most);
  keep_first(facts.second.threads, most);
}

/// Each leaves out more than the one before.
constexpr std::array<void (*)(RankFacts&), 6> kSteps{[](RankFacts& facts) {
                                                       keep_first(facts.connections, 64);
                                                       keep_first(facts.launcher_connections, 8);
                                                       keep_first(facts.children, 16);
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
                                                       keep_threads(facts, 1);
                                                       facts.native.clear();
                                                       for (PythonThread& thread : facts.python)
                                                         keep_first(thread.frames, 4);
                                                     }};

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
          .problem = facts.problem.substr(0, 256)};
}

}  // namespace ddprun::launcher::why
