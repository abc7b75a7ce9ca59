#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/straggler.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {

/// Ranks that do the same, and one of the collectives they are in.
using Camp = std::pair<const Collective*, Ranks>;

/// A connection on which nothing is acknowledged: that rank's, or its launcher's.
struct LostPackets {
  int rank = 0;
  bool is_launchers = false;
  const Connection* on = nullptr;
};

// The sentences of a verdict: one for each rule (rules.h), with the guilty ranks in it. Pure.

std::string ended_words(const Ranks& ended, bool with_0, const Ranks& waiting);
std::string held_words(const Scene& scene, const Ranks& held);
std::string disagreement_words(std::int64_t sequence, const std::vector<Camp>& camps, bool is_tie);
std::string late_words(const Scene& scene, const Ranks& late);
std::string usual_words(const Ranks& late, double waited_s);
std::string silence_words(double moved_s);
std::string cycle_words(const std::vector<Camp>& camps);
std::string unrecorded_words(const Scene& scene, const Ranks& late, const Ranks& waiting);
/// `unknown`: who may be guilty as well, and was not seen.
std::string suspects_words(const Scene& scene, const Ranks& suspects, const Ranks& unknown,
                           const Ranks& waiting);
std::string network_words(const Scene& scene, const Ranks& guilty, const LostPackets& lost);
std::string cut_off_words(const Ranks& unseen, const std::set<std::string>& hosts, const LostPackets& lost);
/// "10.0.0.3" of "10.0.0.3:5000", and "fe80::1" of "[fe80::1]:5000".
std::string host_of(const std::string& address);
std::string all_wait_words(const Scene& scene, const Ranks& waiting);
std::string unclear_words(const Ranks& unclear, const Ranks& waiting);
std::string gpus_words(const Scene& scene, const Ranks& waiting, double waited_s);
std::string straggler_words(const JobPicture& picture, const Straggler& straggler);
std::string siblings_words(const RankFacts& facts);
std::string unseen_words(const JobPicture& picture);

}  // namespace ddprun::launcher::why
