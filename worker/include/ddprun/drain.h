#pragma once

#include <ddprun/init.h>

#include <chrono>
#include <functional>
#include <memory>

namespace ddprun {

struct DrainOptions {
  /// Within this time a signal that one rank has got reaches all.
  std::chrono::milliseconds spread{500};
  /// How long ranks that want to stop wait for each other.
  std::chrono::milliseconds meeting{5000};
  /// A process that makes no step for this long after the signal, and for longer than five of its longest
  /// steps, waits for a rank that is gone: it ends at once.
  std::chrono::milliseconds patience{5000};
  /// But for a checkpoint that a Checkpointer of this process is writing, or what it has_unsaved(), it waits so much
  /// longer.
  std::chrono::milliseconds unfinished{20'000};
};

/// SIGTERM (or SIGINT) as a request to stop in good order, after the same step on every rank. `ddprun` sends
/// it to all workers of a job when one of its nodes is preempted, when the job is drained, and when a rank
/// has failed.
///
///     ddprun::Drain drain;
///     drain.on_drain([&] { save_checkpoint(); });
///     while (train_one_step()) {
///       if (drain.requested(context)) return drain.is_together() ? 0 : 1;  // 1: nothing was saved
///     }
///
/// Signals  from construction to destruction they do not end this process, except before its first step, when
///          a second one comes, and when no step follows (`patience`): then the process ends with 128 +
///          signal. One object per process at a time.
/// Order    a program may make one after the other, for a part of its work each: all ranks make as many, so that
///          the second one of a rank agrees with the second ones of the others. A signal that comes too late for
///          the last steps of one is passed to the next.
/// Threads  one of its own. Members are called from the training thread.
class Drain {
 public:
  explicit Drain(DrainOptions options = {});
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Called once, from within `requested`, when all ranks have stopped after the same step: it may use
  /// collectives and take its time. Not called where `is_together` is false.
  void on_drain(std::function<void()> callback);

  /// Ends a step; true, and from then on: stop, after the same step on every rank if `is_together`, else because some
  /// rank did not come. Where one is past the agreed step already (on a GPU the program runs ahead of its work), all go
  /// on to its step.
  ///
  /// Order   every rank calls it once after each step.
  /// Blocks  after the signal: one question to the store, and at the stop step until all ranks are there, at
  ///         most `meeting` for each meeting; where ranks came with different steps, there is another one.
  /// Errors  what the store throws.
  [[nodiscard]] bool requested(const Context& context);

  /// Once `requested` has said true: whether all ranks have stopped after the same step. False when some did
  /// not come, because only some were signalled; then collectives would hang.
  [[nodiscard]] bool is_together() const;

  /// The signal that asked this process to stop; 0: none has.
  [[nodiscard]] int signal() const;

  /// Whether the process has something unsaved that no other rank has. Then a signal that comes before its second step
  /// is done does not end it at once: it stops after that step, from which on the length of a step is known.
  void has_unsaved(bool has);
  /// A part of a long step (an evaluation) is done.
  void progress();
  /// What comes until the next step or `progress` (writing a checkpoint) may take any time.
  void take_time();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddprun
