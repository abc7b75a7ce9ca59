#include "worker/training/observers/step_trace.h"

#include "tests/support/catch.h"

using namespace ddprun::training;

TEST_CASE("a trace that is whole needs no word at the end") {
  CHECK(missing_trace_in_words({.first_step = 10, .steps = 3}, 0, 100, 3).empty());
  CHECK(missing_trace_in_words({.first_step = 10, .steps = 0}, 0, 5, 0).empty());
}

TEST_CASE("a trace beyond the last step is said to be none, and one that ends there to lack steps") {
  const TraceOptions options{.first_step = 10, .steps = 3};
  CHECK(missing_trace_in_words(options, 0, 8, 0) ==
        "no trace: /log/trace is of steps 10 to 12, and this run ended after step 8");
  CHECK(missing_trace_in_words(options, 0, 11, 2) ==
        "the trace has 2 of 3 steps: /log/trace is of steps 10 to 12, and this run ended after step 11");
  CHECK(missing_trace_in_words({.first_step = 10, .steps = 1}, 0, 8, 0) ==
        "no trace: /log/trace is of step 10, and this run ended after step 8");
}

TEST_CASE("a run that goes on beyond the traced steps says that it has no trace of its own") {
  CHECK(missing_trace_in_words({.first_step = 10, .steps = 3}, 40, 60, 0) ==
        "no trace of this run: /log/trace is of steps 10 to 12, and it went on after step 40");
}

TEST_CASE("who watches a clock of activities is told of those that begin from then on, and of their ends") {
  struct Watcher final : ActivityWatcher {
    void begins(const char* name) override { heard += std::string("+") + name; }
    void ends() override { heard += "-"; }
    std::string heard;
  } watcher;
  const ddprun::KernelClock clock;
  TimeSpent time(clock);
  {
    const auto unheard = time.on(Activity::kLoader);
    time.watch(&watcher);
  }
  {
    const auto heard = time.on(Activity::kBackward);
    time.watch(nullptr);
  }
  CHECK(watcher.heard == "+backward-");
}
