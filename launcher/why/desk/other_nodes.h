#pragma once

#include "launcher/process/pipe.h"
#include "launcher/report/look_desk.h"
#include "launcher/why/facts/facts.h"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// How long their answers to a LookKind::kWhy are waited for: what a look takes at most, and the way.
inline constexpr std::chrono::milliseconds kWhyAnswerTime{4700};

/// Said to a second `ddprun why` of a host in place of an answer: the launcher is there, and is still asking for the
/// first. It is no LookAnswer, and whoever does not know it passes over it.
inline constexpr std::string_view kAskLater = "\n";

/// An answer in place of the ranks: a look at them has not ended which hears no more questions, or, of an older ddprun,
/// which is for somebody else.
inline constexpr std::string_view kBusyAnswer = "busy\n";

/// What the other nodes of a job have answered, put together. Pure.
class OtherNodes {
 public:
  struct Node {
    std::string name;
    std::string text;
    bool is_over = false;
    bool is_older = false;  ///< it does not know the question
  };

  void take(LookAnswer part);
  /// Nothing more comes.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool has_heard() const { return has_heard_; }
  /// By their numbers, which stay while they are connected.
  [[nodiscard]] const std::map<std::uint64_t, Node>& nodes() const { return nodes_; }
  [[nodiscard]] bool are_all_named() const { return are_all_named_; }
  /// Why there are none, in a sentence of the launcher.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The ranks into the picture, and a sentence for each node that has none. `waited` is for how long was waited.
  void add_to(JobPicture& picture, std::chrono::milliseconds waited) const;

 private:
  std::map<std::uint64_t, Node> nodes_;
  std::string problem_;
  bool has_heard_ = false;
  bool are_all_named_ = false;
};

/// "the launcher here (pid 7) has passed on no answer within 4.7 s: …", and of a node.
std::string silent_launcher_words(pid_t launcher, std::chrono::milliseconds waited);
std::string silent_node_words(const std::string& name, std::chrono::milliseconds waited);

/// Of a launcher that knows itself by another pid.
inline constexpr const char* kLauncherInContainer =
    "the launcher here is in a pid namespace of its own, a container, and can be asked only there";

/// A question to the other nodes of a job, through its launcher on this host (desk.h).
class Question {
 public:
  /// Asks; the answer is read later.
  Question(pid_t launcher, LookKind kind);

  /// Reads until all have answered, or that moment; after it, what is there. Who is told to ask later has
  /// kWhyAnswerTime from when it last was, and again from the first word of an answer; three times that in all.
  OtherNodes answer(std::chrono::steady_clock::time_point until);

 private:
  void ask() const;

  pid_t launcher_;
  LookKind kind_;
  Pipe pipe_;  ///< its writing end is opened anew by the launcher
};

/// Reads the answers to a LookKind::kWhy until then, and puts them into the picture, in which the ranks here are.
void hear_others(Question& question, std::chrono::steady_clock::time_point until, JobPicture& picture);

}  // namespace ddprun::launcher::why
