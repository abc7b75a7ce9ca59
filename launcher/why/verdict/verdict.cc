#include "launcher/why/verdict/verdict.h"

#include "launcher/text/text.h"
#include "launcher/why/verdict/rank_sets.h"
#include "launcher/why/verdict/rules.h"
#include "launcher/why/verdict/straggler.h"
#include "launcher/why/verdict/verdict_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::launcher::why {
namespace {

constexpr std::array kRules{accuse_ended, accuse_held,     accuse_minority,
                            accuse_late,  accuse_suspects, accuse_network};

/// Asks the rules, and says what else is to be said.
class Judge {
 public:
  explicit Judge(const JobPicture& picture) : picture_(picture), scene_(picture) {
    for (const RankFacts& facts : picture.ranks) {
      verdict_.ranks.push_back({.rank = facts.rank,
                                .host = facts.host,
                                .pid = facts.pid,
                                .activity = scene_.activity(facts.rank),
                                .waits_in = scene_.waits_in(facts.rank)});
    }
  }

  /// Of a job that seems fine while its ranks wait for nothing that was begun lately: whether they wait for one that
  /// does not come to what a thread in the background has begun.
  std::optional<Verdict> judge_background() {
    verdict_.moved_s = scene_.moved_s();
    // A listener waits as long as its job goes on: what silence is usual shows in what was begun since.
    constexpr double kLong = 60;
    if (verdict_.moved_s < kLong || scene_.is_usual(verdict_.moved_s)) return std::nullopt;
    const std::optional<Accusation> late = accuse_late(scene_);
    if (!late || late->health != Health::kStuck || late->waiting.empty()) return std::nullopt;
    take(*late);
    verdict_.confidence = Confidence::kGuess;
    clean();
    add_notes();
    return std::move(verdict_);
  }

  Verdict judge() {
    verdict_.moved_s = scene_.moved_s();
    if (awaits_nodes()) {
      verdict_.health = Health::kAwaits;
      verdict_.reason = picture_.awaits;
      verdict_.ranks.clear();
    } else if ((picture_.phase != "running" && !picture_.phase.empty()) ||
               (picture_.is_launcher_stopped && ended_all())) {
      verdict_.health = Health::kEnding;
    } else {
      ask_rules();
    }
    admit_unclear();
    note_gpus();
    note_silence();
    clean();
    add_notes();
    return std::move(verdict_);
  }

 private:
  void ask_rules() {
    std::optional<Accusation> found;
    for (std::size_t i = 0; i < kRules.size() && !found; ++i) found = kRules[i](scene_);
    if (found) take(*found);
    if (verdict_.health != Health::kFine) return;
    judge_progress();
    if (found && verdict_.health == Health::kFine) verdict_.notes.push_back(found->reason);
  }

  void take(const Accusation& found) {
    verdict_.is_of_part = found.is_of_part;
    if (found.health == Health::kFine) return;
    verdict_.health = found.health;
    verdict_.confidence = found.confidence;
    verdict_.guilty.assign(found.guilty.begin(), found.guilty.end());
    verdict_.waiting.assign(found.waiting.begin(), found.waiting.end());
    verdict_.reason = found.reason;
    const double waited = scene_.waited_by(found.waiting);
    verdict_.waited_s = waited < 0 ? found.waited_s : waited;
  }

  /// Before a round, the first or another: the ranks that there were have ended.
  [[nodiscard]] bool awaits_nodes() const {
    return !picture_.awaits.empty() && (picture_.phase == "starting" || picture_.phase == "restarting") &&
           std::all_of(picture_.ranks.begin(), picture_.ranks.end(),
                       [](const RankFacts& facts) { return facts.pid == 0; });
  }

  /// What other nodes tell may be anything, and all of this goes to a terminal.
  void clean() {
    verdict_.reason = printable(verdict_.reason);
    for (RankVerdict& rank : verdict_.ranks) {
      rank.host = printable(rank.host);
      rank.waits_in = printable(rank.waits_in);
      rank.activity.words = printable(rank.activity.words);
    }
  }

  void judge_progress() {
    const Straggler straggler = find_straggler(picture_);
    if (straggler.rank < 0) return;
    verdict_.health = Health::kSlow;
    verdict_.confidence = Confidence::kLikely;
    verdict_.guilty = {straggler.rank};
    verdict_.reason = straggler_words(picture_, straggler);
  }

  /// Who waits may wait for one that could not be seen; and of a job of which nobody could be read, nothing is known.
  void admit_unclear() {
    if (verdict_.health != Health::kFine || scene_.has_progress()) return;
    const Ranks waiting = scene_.ranks_that(awaits_others);
    const Ranks unread = scene_.unread();
    const bool is_any_read = unread.size() < picture_.ranks.size();
    if (is_any_read && (waiting.empty() || scene_.is_usual(scene_.waited_by(waiting)))) return;
    const Ranks unclear = is_any_read ? unknown_among(scene_, suspects(scene_, waiting)) : unread;
    if (unclear.empty()) return;
    take({.health = Health::kUnknown,
          .confidence = Confidence::kGuess,
          .waiting = waiting,
          .reason = unclear_words(unclear, waiting),
          .is_of_part = verdict_.is_of_part});
  }

  /// Where all have begun a collective, nobody can tell from outside whether their GPUs get on with what was queued
  /// before it.
  void note_gpus() {
    if (verdict_.health != Health::kFine || scene_.has_progress()) return;
    Ranks waiting;
    for (const RankFacts& facts : picture_.ranks) {
      const std::vector<Collective> open = pending(facts.recorder);
      if (!open.empty() && open.front().backend == kNccl) waiting.insert(facts.rank);
    }
    const double waited = scene_.waited_by(waiting);
    if (waiting.empty() || waiting.size() < picture_.ranks.size() || scene_.is_usual(waited)) return;
    verdict_.notes.push_back(gpus_words(scene_, waiting, waited));
  }

  /// Files that somebody polls for, and what else ranks wait for by themselves, are recorded nowhere.
  void note_silence() {
    constexpr double kLong = 10;
    if (verdict_.health != Health::kFine || !verdict_.notes.empty() || verdict_.moved_s < kLong) return;
    const bool is_silent =
        std::all_of(picture_.ranks.begin(), picture_.ranks.end(), [&](const RankFacts& facts) {
          const Doing doing = scene_.activity(facts.rank).doing;
          return doing == Doing::kSleeps || doing == Doing::kBlocked || doing == Doing::kEnded;
        });
    if (is_silent && picture_.ranks.size() > 1 && !ended_all())
      verdict_.notes.push_back(silence_words(verdict_.moved_s));
  }

  [[nodiscard]] bool ended_all() const { return ended_ranks(scene_).size() == picture_.ranks.size(); }

  void add_notes() {
    std::set<std::string> notes;
    for (const RankFacts& facts : picture_.ranks) {
      for (const std::string& problem :
           {facts.problem, facts.recorder.problem, facts.python_problem, facts.native_problem}) {
        if (!problem.empty()) notes.insert(problem);
      }
      if (facts.siblings > 0) notes.insert(siblings_words(facts));
    }
    verdict_.notes.insert(verdict_.notes.end(), notes.begin(), notes.end());
    if (picture_.is_launcher_stopped)
      verdict_.notes.push_back(fmt::format(
          "its launcher (pid {0}) is stopped by a signal, and notices nothing; kill -CONT {0} lets "
          "it go on",
          picture_.launcher));
    if (verdict_.health != Health::kAwaits && picture_.world_size > static_cast<int>(picture_.ranks.size()))
      verdict_.notes.push_back(unseen_words(picture_));
  }

  const JobPicture& picture_;
  const Scene scene_;
  Verdict verdict_;
};

}  // namespace

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kFine:
      return "fine";
    case Health::kUnknown:
      return "unknown";
    case Health::kSlow:
      return "slow";
    case Health::kLate:
      return "late";
    case Health::kStuck:
      return "stuck";
    case Health::kAwaits:
      return "awaits";
    case Health::kEnding:
      return "ending";
  }
  return "";
}

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kSure:
      return "sure";
    case Confidence::kLikely:
      return "likely";
    case Confidence::kGuess:
      return "guess";
  }
  return "";
}

Verdict judge(const JobPicture& picture) {
  JobPicture foreground = picture;
  bool has_background = false;
  bool has_open = false;
  for (RankFacts& facts : foreground.ranks) {
    for (Recorder* const recorder : {&facts.recorder_first, &facts.recorder})
      has_background =
          std::erase_if(recorder->entries, [](const Collective& one) { return one.lingers; }) > 0 ||
          has_background;
    has_open = has_open || !pending(facts.recorder).empty();
  }
  Verdict verdict = Judge(foreground).judge();
  const bool may_get_on =
      std::any_of(verdict.ranks.begin(), verdict.ranks.end(), [](const RankVerdict& rank) {
        return gets_on(rank.activity.doing) || rank.activity.doing == Doing::kUnknown;
      });
  if (verdict.health != Health::kFine || !has_background || has_open || may_get_on) return verdict;
  std::optional<Verdict> background = Judge(picture).judge_background();
  if (!background) return verdict;
  background->ranks = std::move(verdict.ranks);  // what their main threads do
  return *std::move(background);
}

}  // namespace ddprun::launcher::why
