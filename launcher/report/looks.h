#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::launcher {

/// `ddprun why` asks a launcher by SIGURG, which one that does not know it ignores, with this in the upper half of its
/// value, "wy", and in the lower one a descriptor of its own: the writing end of a pipe for the answer.
inline constexpr int kQuestionMark = 0x7779;

/// Some of what another node sees of its ranks.
struct LookPart {
  std::uint64_t number = 0;  ///< of the question
  std::uint64_t from = 0;    ///< of the node; 0: those that were asked have all been named
  std::string node{};        ///< its name, for people
  std::string text{};        ///< empty, and not the last: it was asked
  bool is_last = false;
};

/// Carries questions and answers between the nodes of a job.
class LookLine {
 public:
  virtual ~LookLine() = default;
  /// Asks all other nodes. False: there is no coordinator now.
  virtual bool ask(std::uint64_t number) = 0;
  /// Of this node, to whom has asked; never blocks.
  virtual void answer(LookPart part) = 0;
};

/// Where `ddprun why` of this node and of the others is served. Called on the io_context's thread; quick.
class LookDesk {
 public:
  virtual ~LookDesk() = default;
  /// `line` is there until `close`.
  virtual void open(LookLine& line) = 0;
  /// Nothing is pending on the io_context then.
  virtual void close() = 0;
  /// A process on this host asks, and has this descriptor for the answer.
  virtual void asked_by(pid_t process, int descriptor) = 0;
  /// Another node asks.
  virtual void wanted(std::uint64_t number, std::size_t most_bytes) = 0;
  virtual void answered(const LookPart& part) = 0;
};

}  // namespace ddprun::launcher
