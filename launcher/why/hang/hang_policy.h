#pragma once

#include "launcher/why/look/socket_diag.h"
#include "launcher/why/verdict/verdict.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

struct HangLimits {
  double report_s = 0;   ///< --hang-report; 0: never
  double timeout_s = 0;  ///< --hang-timeout; 0: never
  /// The user gave one of them. Where nobody asked, only programs with libtorch are looked at.
  bool is_asked = true;
  /// The user gave the time-out. Where nobody did, it ends only what cannot get on.
  bool is_timeout_asked = true;
  std::string_view timeout_name = "--hang-timeout";
  bool is_alone = true;  ///< all ranks of the job are on this node

  [[nodiscard]] bool is_off() const { return report_s <= 0 && timeout_s <= 0; }
  /// The one that is reached first.
  [[nodiscard]] double first_s() const;
};

/// What little of a rank is looked at again and again.
struct Pulse {
  int rank = 0;
  int pid = 0;
  bool records = false;     ///< it has a flight recorder with entries, or tells of itself
  std::uint64_t next = 0;   ///< of the recorder
  std::uint64_t beats = 0;  ///< of what it tells
  std::size_t pending = 0;  ///< collectives that have not ended
  bool is_busy = false;     ///< it computes, reads or writes
  bool has_torch = false;   ///< it has loaded libtorch
  /// Bytes that have come over its connections to other ranks of this host, by the other ends of these. What a rank in
  /// a collective gets of it comes to an end where another one is missing.
  std::map<std::string, std::uint64_t> received{};
};

/// Of several nodes each looks at its own ranks, by which `here` judges. Whether this one asks the others for theirs:
/// it has a rank which may be the late one, that neither gets on nor waits in a collective; or rank 0, where all wait
/// here, for somebody has to find out if they do everywhere; or the time is over, for who waits may be guilty all the
/// same. Pure.
bool asks_others(const Verdict& here, bool is_time_over);

/// Whether all that are guilty have ended; also where nobody is. Pure.
bool have_ended(const Verdict& verdict);

/// Fills in `received`, by the connections of the same ranks, in the same order. Pure.
void add_messages(std::vector<Pulse>& pulses, const std::vector<std::map<std::string, Received>>& of_ranks);

/// When a job is to be looked at closely, and what is said and done then. Time is seconds of any clock that never goes
/// back. Pure.
///
/// Progress is a collective that is begun or ends on any rank, what a rank with libddprun tells, or what comes to a
/// rank from another one of this host, for gloo's messages are recorded nowhere; where nothing is recorded, any rank
/// that computes, reads or writes. Of a job of which a part gets on, the other part is told, but not ended, where all
/// that are accused are here: they, and those that wait for them, have to have been without progress for the limit.
///
/// Without progress for the limit the verdict decides: a rank that still does something is left in peace by the report,
/// for it may evaluate or save, but not by the time-out; a job in a debugger's hands, and one in which nobody waits for
/// anybody, unless all are stopped by a signal, are left in peace by both. Where all wait and nobody is guilty, the
/// time-out ends all; but of ranks that were not seen one may compute: then only ranks that wait for nobody
/// (awaits_others) are ended, and without a flag told, and a guess ends nobody. A time-out that nobody has asked for
/// ends a job only where the guilty ranks are stopped by a signal, and not all are, or have ended.
///
/// That somebody is stopped or frozen has to be seen in two looks: a job that is just being stopped as a whole, by
/// Ctrl-Z for one, looks the same in the first, and before the second the caller sees that the launcher is stopped,
/// too.
///
/// Those who wait have to have waited as long: all may have done without collectives before, and one be a little later
/// than the others. Of several nodes each feels its own ranks. The node that has the guilty rank ends it; rank 0's does
/// where nobody is guilty, and where the other has not done it in twice the time: its launcher may take a rank that has
/// recorded nothing for one that computes.
class HangPolicy {
 public:
  HangPolicy(HangLimits limits, double now)
      : limits_(limits), progress_at_(now), shown_at_(now), quiet_since_(now) {}

  /// True: take the picture now, and `decide`.
  bool note(std::vector<Pulse> pulses, double now);

  enum class Say { kNothing, kReport, kEnd };
  /// What the verdict is of.
  struct Sight {
    bool sees_all = true;       ///< all ranks of the job
    bool has_asked = true;      ///< the other nodes, or there are none
    bool has_guilty = true;     ///< somebody guilty is on this node
    bool has_rank_0 = true;     ///< rank 0 is
    bool has_waiting = true;    ///< somebody who waits for the guilty is
    bool has_siblings = false;  ///< a rank is one of several processes, of which the others were not seen
  };
  Say decide(const Verdict& verdict, const Sight& sight, double now);
  /// What was decided has been said.
  void told(const Verdict& verdict, double now);

  /// When a rank has last shown that it gets on: by a collective, by what it tells, or by what came from another one,
  /// and not by its CPU alone.
  [[nodiscard]] double shown_at() const { return shown_at_; }
  /// Whether the last pulses were progress.
  [[nodiscard]] bool has_moved() const { return has_moved_; }
  /// Whether they were for those of whom the verdict is.
  [[nodiscard]] bool has_moved(const Verdict& verdict, double now) const {
    return has_moved_ && quiet_s(verdict, now) <= 0;
  }
  /// Since the last progress of all.
  [[nodiscard]] double quiet_s(double now) const { return now - progress_at_; }
  /// Of those of whom the verdict is: of a part (Verdict::is_of_part) if all accused are here, or else of all.
  [[nodiscard]] double quiet_s(const Verdict& verdict, double now) const;

 private:
  bool is_look_due(std::vector<Pulse> pulses, double now);
  [[nodiscard]] bool is_here(int rank) const;
  /// Whether somebody is accused who was in no report yet, or has got on since.
  [[nodiscard]] bool is_news(const Verdict& verdict) const;
  double lasted_s(const Verdict& verdict, double quiet, double now);

  HangLimits limits_;
  double progress_at_;
  double shown_at_;
  /// The progress of the rank in a collective that has made none for longest; or of all.
  double quiet_since_;
  double look_again_at_ = 0;
  double looked_at_ = -1;
  std::set<int> reported_;    ///< who was accused, and who waited for them
  bool is_all_told_ = false;  ///< what was reported was of all
  std::vector<int> accused_;
  double accused_at_ = -1;  ///< since when these are; -1: nobody is
  bool is_held_ = false;    ///< somebody accused was stopped or frozen at the look of the last `note`
  bool has_moved_ = false;
  std::vector<Pulse> last_;
  std::vector<double> moved_at_;  ///< of each of `last_`
};

}  // namespace ddprun::launcher::why
