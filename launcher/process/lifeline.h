#pragma once

#include "launcher/process/pipe.h"

#include <optional>
#include <utility>

namespace ddprun::launcher {

/// A pipe of which only the launcher has the end to write into. Each worker holds an end to read from that
/// tells the kernel, by F_SETOWN and F_SETSIG, to send SIGTERM to the worker's OS process group when
/// something happens on it; and the only thing that ever happens is that the launcher dies. So the families
/// of workers, as far as they are in their groups, end even when nobody is left to end them: launcher and
/// guards killed at one blow.
///
/// Signal  SIGTERM and not SIGKILL: Python's resource tracker, which removes what a dead worker has left in
///         /dev/shm, is in the group and ignores it. Workers themselves get SIGKILL by PDEATHSIG in any case.
/// Limits  who leaves the group, or ignores SIGTERM, is left to the guards. A worker that closes all its
///         descriptors gives its own protection up, and loses nothing else.
class Lifeline {
 public:
  /// None where there are no descriptors left: the guards are still there.
  static std::optional<Lifeline> make();

  /// For SpawnRequest.
  [[nodiscard]] int fd() const { return pipe_.read_end.get(); }

 private:
  explicit Lifeline(Pipe pipe) : pipe_(std::move(pipe)) {}

  Pipe pipe_;
};

/// In a child that leads an OS process group, before its program runs: takes hold of the launcher's Lifeline.
/// The descriptor to keep open over exec; -1: there is none. Async-signal-safe.
int hold_lifeline(int fd);

}  // namespace ddprun::launcher
