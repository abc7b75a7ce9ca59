#pragma once

#include "launcher/report/looks.h"
#include "launcher/why/facts.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// What the other nodes of a job have answered, put together. Pure.
class OtherNodes {
 public:
  void take(LookPart part);
  /// Nothing more comes.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool has_heard() const { return has_heard_; }

  /// The ranks into the picture, and a sentence for each node that has none. `waited` is for how long was waited.
  void add_to(JobPicture& picture, std::chrono::milliseconds waited) const;

 private:
  struct Node {
    std::string name;
    std::string text;
    bool is_over = false;
  };
  std::map<std::uint64_t, Node> nodes_;
  std::string problem_;
  bool has_heard_ = false;
  bool are_all_named_ = false;
};

/// A question to the other nodes of a job, through its launcher on this host (desk.h).
class Question {
 public:
  /// Asks; the answer is read later.
  explicit Question(pid_t launcher);

  /// Reads until all have answered, or that moment.
  OtherNodes answer(std::chrono::steady_clock::time_point until);

 private:
  void ask() const;

  pid_t launcher_;
  UniqueFd from_;
  UniqueFd to_;  ///< which the launcher opens anew
};

}  // namespace ddprun::launcher::why
