#pragma once

#include "rendezvous/membership/messages.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ddprun::launcher {

using membership::Asked;
using membership::LookAnswer;
using membership::LookKind;

/// `ddprun why` and `ddprun ps --watch` ask a launcher by SIGURG, which one that does not know it ignores, with one of
/// these in the upper half of its value, "wy" or "ps", and in the lower one a descriptor of their own: the writing end
/// of a pipe for the answer.
inline constexpr int kWhyMark = 0x7779;
inline constexpr int kNumbersMark = 0x7073;

inline int mark_of(LookKind kind) { return kind == LookKind::kWhy ? kWhyMark : kNumbersMark; }

/// Of the value of a SIGURG; nullopt: it is no question.
inline std::optional<LookKind> kind_of_question(int value) {
  for (const LookKind kind : {LookKind::kWhy, LookKind::kNumbers}) {
    if (value >> 16 == mark_of(kind)) return kind;
  }
  return std::nullopt;
}

/// Carries questions and answers between the nodes of a job.
class LookLine {
 public:
  virtual ~LookLine() = default;
  /// Asks all other nodes.
  virtual Asked ask(std::uint64_t number, LookKind kind) = 0;
  /// Of this node, to whom has asked; never blocks.
  virtual void answer(LookAnswer answer) = 0;
};

/// Where `ddprun why` and `ddprun ps --watch` of this node and of the others is served. Called on the io_context's
/// thread; quick.
class LookDesk {
 public:
  virtual ~LookDesk() = default;
  /// `line` is there until `close`.
  virtual void open(LookLine& line) = 0;
  /// Nothing is pending on the io_context then.
  virtual void close() = 0;
  /// A process on this host asks, and has this descriptor for the answer.
  virtual void asked_by(pid_t process, int descriptor, LookKind kind) = 0;
  /// Another node asks.
  virtual void wanted(std::uint64_t number, std::size_t most_bytes, LookKind kind) = 0;
  virtual void answered(const LookAnswer& answer) = 0;
};

}  // namespace ddprun::launcher
