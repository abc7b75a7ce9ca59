#pragma once

#include "rendezvous/membership/types.h"

#include <map>
#include <string>

namespace ddprun::membership::testing {

/// What membership promises about generations and ranks, held against what it does. Told everything, it keeps
/// the first broken promise as a sentence.
class Promises {
 public:
  explicit Promises(JobSpec spec) : spec_(std::move(spec)) {}

  /// The coordinator begins a generation; the seats of the one before are remembered.
  void generation_began(Generation generation);
  /// Another coordinator took over; it knows what agents tell it.
  void coordinator_is_new() { current_ = Generation(0), seats_.clear(), is_complete_ = true; }
  /// The coordinator gives `id`, with so many workers, this seat.
  void seated(MemberId id, LocalWorldSize workers, const Seat& seat);
  /// The coordinator has given all seats that it gives at once.
  void all_seated();
  void workers_started(const std::string& host, Generation generation, TimePoint at);
  void workers_ended(Generation generation);
  /// For promises that others check.
  void broke(std::string sentence);

  /// The first broken promise; empty while all hold.
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  struct Held {
    Seat seat;
    LocalWorldSize workers{1};
  };

  void check_survivor(MemberId id, const Seat& seat);

  JobSpec spec_;
  std::string broken_;
  Generation current_;
  bool is_complete_ = true;                 ///< all seats of current_ have been checked
  std::map<MemberId, Held> seats_;          ///< of current_
  std::map<MemberId, Seat> previous_;       ///< of the generation before
  std::map<Generation, int> with_workers_;  ///< how many nodes have workers of it
};

}  // namespace ddprun::membership::testing
