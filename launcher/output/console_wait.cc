#include "launcher/output/console_wait.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr auto kLook = std::chrono::seconds(10);

}  // namespace

void ConsoleWait::start(Patience patience, std::function<void()> on_done) {
  patience_ = patience;
  on_done_ = std::move(on_done);
  if (!output_.has_backlog()) return end();
  output_.set_on_empty([this] {
    if (!output_.has_backlog()) end();
  });
  look_again();
}

void ConsoleWait::look_again() {
  taken_ = output_.taken_bytes();
  timer_.set_after(kLook, [this] {
    if (patience_ == Patience::kTenSeconds || output_.taken_bytes() == taken_) return end();
    say_that_it_waits();
    look_again();
  });
}

void ConsoleWait::say_that_it_waits() {
  if (std::exchange(has_said_, true)) return;
  output_.say("the job is over, but not all of its output is through yet; Ctrl-C or SIGTERM drops the rest");
}

void ConsoleWait::end() {
  timer_.cancel();
  if (on_done_) std::exchange(on_done_, nullptr)();
}

}  // namespace ddprun::launcher
