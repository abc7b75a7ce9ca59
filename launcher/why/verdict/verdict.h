#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/verdict/doing.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

enum class Health {
  kFine,
  kUnknown,  ///< nothing was read, or ranks wait, and for whom they may wait was not
  kSlow,     ///< it gets on, and one rank is late every time
  kLate,     ///< ranks wait for one that still does something: work that takes long, or a loop without an end
  kStuck,    ///< ranks wait for one that does nothing
  kAwaits,   ///< it has no ranks now: it waits for its round
  kEnding,   ///< the launcher is starting, stopping or restarting it
};

enum class Confidence {
  kSure,
  kLikely,
  kGuess,  ///< the facts go with more than one explanation
};

struct RankVerdict {
  int rank = 0;
  std::string host;
  int pid = 0;
  Activity activity;
  std::string waits_in;  ///< "all_reduce #1294"; empty: in nothing that was recorded
};

struct Verdict {
  Health health = Health::kFine;
  Confidence confidence = Confidence::kSure;
  double waited_s = -1;      ///< for how long those who wait have; -1: not known
  std::vector<int> guilty;   ///< empty: nobody, or nobody can say
  std::vector<int> waiting;  ///< ranks that wait for the guilty ones
  double moved_s = -1;       ///< since any rank began a collective, or got on otherwise; -1: not known
  /// It holds for those that are accused or wait, whatever the others do. Without this it holds only while nobody gets
  /// on.
  bool is_of_part = false;
  std::string reason;              ///< a sentence with the guilty rank in it; empty: nothing is wrong
  std::vector<RankVerdict> ranks;  ///< by rank
  std::vector<std::string> notes;  ///< what could not be seen, and how to see more
};

std::string_view to_string(Health health);
std::string_view to_string(Confidence confidence);

/// Whom a job waits for, and why. Pure: the picture is all there is.
///
/// Who is held (by a signal, a debugger, the kernel) is guilty first, and who has ended where others wait and nobody
/// else may be meant. Else the flight recorders say who has not entered the collective in which others wait; who of
/// those waits for somebody itself, or spins in what others have to end, is not guilty, but leads on. Ranks that are in
/// different collectives at the same place are told apart by majority. Where nobody is known to be missing who does not
/// wait, suspects are those that do not, by stacks and calls, and may be meant: one alone is accused, several are a
/// guess, and where only ranks are suspected that were not seen well enough nobody is accused. A job in which anything
/// was completed between the two looks is not stuck; nor is one that has waited no longer than it is used to.
Verdict judge(const JobPicture& picture);

}  // namespace ddprun::launcher::why
