#pragma once

#include "launcher/why/facts/facts.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Jobs that are played until nobody gets on, so that it is known who is guilty; what a look would show of them; and
// what of that may be missing.

namespace ddprun::launcher::why {

/// What goes wrong with one rank, before one of its operations.
enum class Fault {
  kNone,
  kEnds,      ///< with exit code 0
  kSleeps,    ///< for ever, in a lock
  kStops,     ///< by a signal
  kComputes,  ///< which may be work that takes long
  kSkips,     ///< the operation, and goes on
};

/// What of the picture is missing.
enum class Hole {
  kNone,
  kUnread,      ///< of some ranks nothing could be read in time
  kUnseen,      ///< another node has not answered
  kUnrecorded,  ///< the recorder of some ranks could not be read
  kStacksOnly,  ///< no rank has a recorder
  kUnstacked,   ///< the stacks of some ranks could not be taken
};

class MadeJob {
 public:
  explicit MadeJob(std::uint32_t seed);

  /// What a look would show, with holes in it.
  [[nodiscard]] JobPicture picture(Hole hole);

  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] int culprit() const { return culprit_; }
  /// Whether the culprit computes while it is in a collective over NCCL: nobody can tell that from a wait.
  [[nodiscard]] bool may_spin() const;
  [[nodiscard]] bool is_anybody_waiting() const;
  /// Whether every rank that waits does so in collectives, of groups whose members are told.
  [[nodiscard]] bool tells_all() const;
  /// What was played, for who has to understand a failure.
  [[nodiscard]] std::string script() const;

 private:
  enum class Kind { kAllReduce, kBroadcast, kReduce, kMessage, kKey };
  /// What a rank does when it has done all: something of its own, which is nobody's business.
  enum class After { kEnds, kSleeps, kComputes };
  struct Operation {
    Kind kind{};
    std::string group;
    int root = 0;  ///< of a broadcast or reduce; who sends; who sets the key
    int peer = 0;  ///< who receives or asks
    bool is_asynchronous = false;
  };
  struct Entry {
    std::string group;
    std::int64_t sequence = 0;
    Kind kind{};
    int root = 0;
    int stamp = 0;
    bool is_over = false;
  };
  struct Rank {
    std::size_t at = 0;  ///< the next of its operations
    bool is_in = false;  ///< it has begun that
    int came = 0;        ///< when
    bool is_at_fault = false;
    bool has_ended = false;
    bool is_done = false;
    After after{};
    std::vector<Entry> entries;
  };
  using Place = std::pair<std::string, std::int64_t>;

  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint32_t>(below)); }
  void make_program();
  void play();
  bool advance(int rank);
  [[nodiscard]] bool takes_part(int rank, const Operation& operation) const;
  void begin(int rank, const Operation& operation);
  void end_what_is_over(int rank);
  [[nodiscard]] bool is_over(int rank, const Entry& entry) const;
  [[nodiscard]] bool waits(int rank) const;
  [[nodiscard]] RankFacts facts_of(int rank) const;

  std::mt19937 random_;
  int world_ = 0;
  std::map<std::string, std::set<int>> groups_;
  bool tells_members_ = false;  ///< as NCCL's and libddprun's recorders do, and gloo's does not
  bool is_nccl_ = false;        ///< its collectives are: who waits spins
  bool are_messages_nccls_ =
      false;  ///< these, too; or over gloo in a group of their own, which is not recorded
  std::vector<Operation> program_;
  Fault fault_ = Fault::kNone;
  int culprit_ = 0;
  std::size_t fault_at_ = 0;
  std::vector<Rank> ranks_;
  std::map<Place, std::map<int, Kind>> entered_;
  std::set<std::size_t> sent_;  ///< messages and keys, by their place in the program
  int stamp_ = 0;
};

}  // namespace ddprun::launcher::why
