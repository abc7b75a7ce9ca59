#pragma once

#include "rendezvous/membership/types.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// A node that a generation lost.
struct LostNode {
  std::string what;          ///< "node b (10.0.0.2) was lost: it was silent for 5.00 s"
  bool is_by_pause = false;  ///< the coordinator stood still: nobody's fault, and no worker fails of it
  /// Heard while the generation was being stopped, so that it was not stopped for this loss.
  bool was_there = false;
};

/// What follows a generation that has been stopped.
struct Conclusion {
  enum class Kind {
    kGoOn,     ///< another, for nothing: nodes came or went
    kRestart,  ///< another, where the budget has it; else `end`
    kEnd,
  };
  Kind kind = Kind::kGoOn;
  JobEnd end;  ///< kGoOn: only `why`
};

/// Why a generation is stopped: failures and losses in, in the order in which they were noticed, one
/// conclusion out. Pure.
///
/// The cause is what ended the job, where somebody did; else the first node lost (its loss explains the
/// workers that failed elsewhere meanwhile); else the first failed worker of the greatest weight; else what
/// it was stopped for. Who left with 0 is behind the symptom that a peer has gone. The loss of a node that was
/// heard after a worker had failed does not explain that failure. A pause of the coordinator, which costs nodes
/// their leases, explains no worker that failed by itself, whether it was heard before the failure or after.
/// Nothing explains an exit code that means do not restart.
class StopCause {
 public:
  /// The generation is stopped for `why`: a sentence, until a failure is blamed.
  void stop_for(std::string why) { why_ = std::move(why); }
  void lost(LostNode node) { lost_.push_back(std::move(node)); }
  /// From now on `failure` is the cause among the failures; `why` is its sentence.
  void blame(NodeFailure failure, std::string why);
  /// The job ends after this generation. Where a worker had failed by itself, that failure is the end.
  void end_with(const JobEnd& end);
  /// The job ends after this generation. Where it is stopped for a failure, of whatever weight, that is the end, or
  /// the loss that explains a symptom.
  void end_unless_failed(const JobEnd& end);

  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] const std::optional<NodeFailure>& failure() const { return failure_; }
  /// The end that was decided on, to take effect when all is quiet.
  [[nodiscard]] std::optional<JobEnd> ending() const;
  /// `failure`, heard while the generation is being stopped, is a better cause than what was blamed. Its node's
  /// rank is known.
  [[nodiscard]] bool is_explained_by(const NodeFailure& failure) const;

  /// All is quiet. Nothing is left of this generation's causes then.
  [[nodiscard]] Conclusion conclude(bool is_elastic);

 private:
  [[nodiscard]] bool failed_by_itself() const { return failure_ && failure_->weight == Weight::kCause; }
  [[nodiscard]] bool is_final() const { return failure_ && !failure_->final_because.empty(); }
  [[nodiscard]] bool has_pause() const;
  [[nodiscard]] Conclusion choose(bool is_elastic) const;
  [[nodiscard]] JobEnd ended_by_failure() const;
  /// The sentence of the lost node that explains the failure, or of any where nothing has failed.
  [[nodiscard]] std::optional<std::string> explaining_loss() const;

  std::string why_;
  std::string failed_;  ///< the sentence of failure_
  std::vector<LostNode> lost_;
  std::optional<NodeFailure> failure_;
  std::optional<JobEnd> ending_;
  bool ends_by_failure_ = false;  ///< whatever `ending_` says
  bool ends_unless_failed_ = false;
};

}  // namespace ddprun::membership
