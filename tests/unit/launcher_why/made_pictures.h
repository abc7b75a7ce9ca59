#pragma once

#include "launcher/why/facts/facts.h"

#include <sys/syscall.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Pictures of jobs, made by hand: what the rules of the verdict are asked about.

namespace ddprun::launcher::why {

inline constexpr std::int64_t kSecond = 1'000'000'000;
inline constexpr std::int64_t kNow = 1000 * kSecond;

inline ProcessLook asleep(int pid, double at_s, int call) {
  ProcessLook look;
  look.at_s = at_s;
  look.threads.push_back(
      {.tid = pid, .name = "python3", .state = "S", .wait_channel = "x", .call = {call, {}}});
  return look;
}

/// A rank that sleeps in a call.
inline RankFacts rank_in(int rank, int call) {
  RankFacts facts;
  facts.rank = rank;
  facts.local_rank = rank;
  facts.pid = 100 + rank;
  facts.first = asleep(facts.pid, 1, call);
  facts.second = asleep(facts.pid, 2, call);
  facts.recorder_first.is_there = facts.recorder.is_there = true;
  facts.native = {{.tid = facts.pid, .name = "python3", .functions = {"train"}}};
  return facts;
}

/// Enters a collective `age_s` ago.
inline void enter(RankFacts& facts, const std::string& operation, double age_s, bool is_over,
                  const std::string& group = "0", const std::string& backend = "gloo") {
  std::int64_t sequence = 1;
  for (const Collective& entry : facts.recorder.entries)
    sequence += entry.group == group && entry.backend == backend;
  facts.recorder.entries.push_back({.group = group,
                                    .backend = backend,
                                    .sequence = sequence,
                                    .id = facts.recorder.next++,
                                    .operation = operation,
                                    .sizes = {},
                                    .types = {},
                                    .created_ns = kNow - static_cast<std::int64_t>(age_s * kSecond),
                                    .is_over = is_over});
  facts.recorder_first = facts.recorder;
}

/// Says that it is in a group, in which its newest collective is that one.
inline void join(RankFacts& facts, const std::string& group, std::int64_t last = 0,
                 const std::string& ranks = {}, const std::string& backend = "gloo") {
  facts.recorder.memberships.push_back({.group = group, .ranks = ranks, .newest = {{backend, last}}});
}

inline void compute(RankFacts& facts) {
  facts.second.threads[0].state = "R";
  facts.second.threads[0].cpu_s = facts.first.threads[0].cpu_s + 1;
}

/// Torch names the threads that watch over it.
inline void use_nccl(RankFacts& facts) {
  for (ProcessLook* look : {&facts.first, &facts.second})
    look->threads.push_back({.tid = facts.pid + 1000, .name = "pt_nccl_watchdg", .state = "S"});
}

inline JobPicture picture_of(std::vector<RankFacts> ranks) {
  JobPicture picture;
  picture.phase = "running";
  picture.world_size = static_cast<int>(ranks.size());
  picture.taken_ns = kNow;
  picture.ranks = std::move(ranks);
  return picture;
}

}  // namespace ddprun::launcher::why
