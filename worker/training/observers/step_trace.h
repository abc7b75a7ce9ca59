#pragma once

#include "worker/training/state/time_spent.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

/// Which steps are traced: so many, from that one on, counted from 1 as in metrics.jsonl.
struct TraceOptions {
  std::int64_t first_step = 10;
  std::int64_t steps = 0;  ///< 0: none
};

/// "step 10", "steps 10 to 12".
std::string steps_in_words(std::int64_t first, std::int64_t count);

/// What the end of a training that began after step `before` says when fewer steps were traced than were asked for;
/// empty when all were. Pure.
std::string missing_trace_in_words(const TraceOptions& options, std::int64_t before, std::int64_t last_step,
                                   std::int64_t traced);

/// A trace of chosen steps of one rank, for chrome://tracing and ui.perfetto.dev: libtorch's profiler, and in it the
/// trainer's own activities and each step, called ProfilerStep#10 as in Python, where PyTorch's tools look for it.
///
/// Not collective, and no bit of the training changes. What lies between traced steps, an evaluation or a checkpoint,
/// is in the trace as well; the step before the first one warms the profiler up. A step that was rolled back counts.
class StepTrace final : public ActivityWatcher {
 public:
  struct Facts {
    std::string folder;  ///< of the files, rank0.json and so on
    int rank = 0;
    int world_size = 1;
    std::string backend;
    at::Device device{at::kCPU};
    std::string working_directory;  ///< what a person reads is relative to it
  };
  using Say = std::function<void(const std::string& text)>;
  /// `say` is told what is written, on rank 0; `warn` what cannot be, on every rank. Neither ends the training.
  StepTrace(const TraceOptions& options, Facts facts, Say say, Say warn);
  ~StepTrace() override;

  /// Training begins after step `step`. Rank 0 puts the trace of an earlier run aside, trace.old-1, if there will be
  /// another one; no rank writes before that, since each step waits for rank 0.
  void on_start(std::int64_t step);
  void before_step(std::int64_t number);
  void after_step();
  /// Writes what there is of a trace that is not whole.
  void on_end(std::int64_t step);

  /// This while a step is traced, else null.
  [[nodiscard]] ActivityWatcher* watcher() { return state_ == State::kRunning ? this : nullptr; }

  void begins(const char* name) override;
  void ends() override;

 private:
  enum class State { kWaiting, kWarm, kRunning, kOver };
  struct Range;

  void put_earlier_trace_aside();
  void begin(std::int64_t number);
  void synchronize() const;
  /// Whether the file is whole; a person is told why not.
  bool write();
  [[nodiscard]] std::optional<std::string> trouble_with(const std::string& path) const;

  TraceOptions options_;
  Facts facts_;
  Say say_, warn_;
  State state_ = State::kWaiting;
  std::int64_t before_ = 0, first_ = 0, traced_ = 0;
  std::vector<std::unique_ptr<Range>> ranges_;
};

}  // namespace ddprun::training
