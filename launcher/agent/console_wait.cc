#include "launcher/agent/console_wait.h"

#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

}  // namespace

void ConsoleWait::start(std::function<void()> on_done) {
  on_done_ = std::move(on_done);
  if (!output_.has_backlog()) return end();
  output_.set_on_empty([this] {
    if (!output_.has_backlog()) end();
  });
  look_again();
}

void ConsoleWait::look_again() {
  taken_ = output_.taken_bytes();
  timer_.set_after(kPatience, [this] {
    if (output_.taken_bytes() == taken_) return end();
    look_again();
  });
}

void ConsoleWait::end() {
  timer_.cancel();
  if (on_done_) std::exchange(on_done_, nullptr)();
}

}  // namespace ddprun::launcher
