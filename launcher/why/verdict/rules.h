#pragma once

#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/verdict.h"

#include <optional>
#include <string>

namespace ddprun::launcher::why {

/// What a rule has found.
struct Accusation {
  Health health = Health::kStuck;  ///< kFine: it is as usual, `reason` a note, and no other rule is asked
  Confidence confidence = Confidence::kSure;
  Ranks guilty{};
  Ranks waiting{};
  std::string reason{};
  bool is_of_part = false;  ///< as Verdict's
  double waited_s = -1;     ///< counts where it is not known how long `waiting` have
};

// The rules of a verdict: whom each accuses, or nobody. Pure; in the order in which they are asked.

/// Who has ended will not come; but who lives and is missing where others wait is asked first, for of some collectives
/// each rank is free when it has done its part.
std::optional<Accusation> accuse_ended(const Scene& scene);
/// Who is held by a signal, a debugger or the kernel.
std::optional<Accusation> accuse_held(const Scene& scene);
/// The first place of a group at which ranks are in different collectives.
std::optional<Accusation> accuse_minority(const Scene& scene);
/// Who has not entered the collective in which others wait. Who waits for somebody itself is not guilty, but leads on;
/// of groups that ranks use in different orders those of the fewest are.
std::optional<Accusation> accuse_late(const Scene& scene);
/// Where nobody is known to be missing who does not wait: who is missing and waits itself, and whoever does not wait,
/// as far as stacks and calls show it, and may be the one for whom another waits.
std::optional<Accusation> accuse_suspects(const Scene& scene);
/// All are where they should be: what is between them does not get on. The ranks at most of the connections on which
/// packets are lost; or those that were not seen, where all of these lead to one address at which nobody was.
std::optional<Accusation> accuse_network(const Scene& scene);

}  // namespace ddprun::launcher::why
