#include "worker/training/step/exposed_communication.h"

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/types.h>

#include <string>

using namespace ddprun;
using namespace ddprun::training;
using ddprun::testing::FakeClock;

namespace {

double spent_on(const TimeSpent& time, Activity activity) {
  return time.seconds()[static_cast<std::size_t>(activity)];
}

/// A parameter whose gradient takes 2 s; then, as c10d's Reducer does, it waits 3 s for others when the backward ends.
at::Tensor make_reduced(FakeClock& clock) {
  const at::Tensor parameter = torch::ones({2}, torch::requires_grad());
  parameter.register_hook([&clock](const at::Tensor&) {
    clock.advance(std::chrono::seconds(2));
    torch::autograd::Engine::get_default_engine().queue_callback(
        [&clock] { clock.advance(std::chrono::seconds(3)); });
  });
  return parameter;
}

}  // namespace

TEST_CASE("the wait for other ranks at the end of a backward is exposed communication, and not backward") {
  FakeClock clock;
  TimeSpent time(clock);
  const at::Tensor loss = make_reduced(clock).sum();
  {
    const auto span = time.on(Activity::kBackward);
    count_exposed_communication(loss, time);
    loss.backward();
  }
  CHECK(spent_on(time, Activity::kBackward) == 2);
  CHECK(spent_on(time, Activity::kCommunication) == 3);
}

TEST_CASE("who watches is told of the exposed communication within the backward") {
  struct Watcher final : ActivityWatcher {
    void begins(const char* name) override { heard += std::string("+") + name; }
    void ends() override { heard += "-"; }
    std::string heard;
  } watcher;
  FakeClock clock;
  TimeSpent time(clock);
  time.watch(&watcher);
  const at::Tensor loss = make_reduced(clock).sum();
  {
    const auto span = time.on(Activity::kBackward);
    count_exposed_communication(loss, time);
    loss.backward();
  }
  CHECK(watcher.heard == "+backward+exposed communication--");
}
