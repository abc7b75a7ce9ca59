#pragma once

#include "launcher/why/facts/facts.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// What a rank does, by itself and without a look at the others.
enum class Doing {
  kEnded,
  kStopped,        ///< by SIGSTOP or SIGTSTP
  kTraced,         ///< by a debugger
  kFrozen,         ///< by its control group
  kInKernel,       ///< in an uninterruptible wait, or for a file server
  kWaits,          ///< in a collective
  kWaitsForPeer,   ///< in a send or receive
  kWaitsForStore,  ///< for a key
  kComputes,
  kWaitsForGpu,  ///< or computes: who waits spins, too
  kMoves,        ///< reads or writes, and gets on
  kStarved,      ///< wants to run and gets no CPU
  kSwaps,
  kSleeps,   ///< for a time of its own choice
  kBlocked,  ///< in a call, or for a lock
  kUnknown,
};

std::string_view to_string(Doing doing);

/// Whether it is seen to wait for other ranks.
bool waits(Doing doing);
/// Whether it gets on, as far as one can see from outside.
bool gets_on(Doing doing);
/// Whether nothing but somebody from outside makes it go on.
bool is_held(Doing doing);

struct Activity {
  Doing doing = Doing::kUnknown;
  std::string words;  ///< "sleeps in read() of /data/x (nfs4, fs01:/data)"
  /// The places to show, the innermost first: of the program itself where it is known.
  std::vector<Frame> frames;
  bool is_in_open = false;  ///< in a collective or message that was recorded and has not ended
  /// It does nothing but wait for the GPU: it is in a call that returns when that is done.
  bool is_in_synchronize = false;
  /// It waits for all ranks of a group, by what nobody records: whoever waits for it may be the one that has not come.
  bool awaits_group = false;
};

/// Whether it waits for other ranks, or is busy and in what they alone can end: who waits for its GPU spins, and so
/// does who polls for the end. Such a rank may wait for one that nobody has seen.
bool awaits_others(const Activity& activity);

/// Pure.
Activity activity_of(const RankFacts& facts);

/// The collectives that have not ended, the oldest first.
std::vector<Collective> pending(const Recorder& recorder);

}  // namespace ddprun::launcher::why
