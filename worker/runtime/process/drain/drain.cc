#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"
#include "worker/runtime/checkpoint/unfinished.h"
#include "worker/runtime/process/drain/meeting.h"
#include "worker/runtime/process/drain/step_pace.h"
#include <ddprun/drain.h>

#include <fmt/format.h>
#include <semaphore.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using runtime::StepPace;

constexpr long kWakeUpNs = 20'000'000;

constexpr std::array kSignals = {SIGTERM, SIGINT};

// What a signal handler may touch.
sem_t signals_arrived;
std::atomic<int> first_signal = 0;
std::atomic<bool> is_in_use = false;

// All of this process, so that each has keys of its own in the store.
std::atomic<int> drains_made = 0;

// The last one was asked to stop and came to its end before that step: the next one has to.
std::atomic<bool> is_left_over = false;

void on_signal(int number) {
  const int saved = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
  ::sem_post(&signals_arrived);
  errno = saved;
}

void wait_for_signal() {
  while (::sem_wait(&signals_arrived) != 0) {
  }
}

/// True when a signal came within one wake-up.
bool wait_a_little() {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kWakeUpNs;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  return ::sem_timedwait(&signals_arrived, &until) == 0;
}

[[noreturn]] void end_now() { ::_exit(exit_code::kSignalBase + first_signal); }

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// The first rank that asks proposes, and all take the first proposal: no collective is needed.
std::int64_t agree_on_step(c10d::Store& store, const std::string& key, std::int64_t proposal) {
  const std::vector<std::uint8_t> agreed = store.compareSet(key, {}, to_bytes(std::to_string(proposal)));
  return std::stoll(std::string(agreed.begin(), agreed.end()));
}

}  // namespace

struct Drain::State {
  explicit State(DrainOptions wanted) : options(wanted) {
    DDPRUN_CHECK(!is_in_use.exchange(true), "one ddprun::Drain at a time");
    ::sem_init(&signals_arrived, 0, 0);
    if (is_signalled) {
      pace.progress(now());  // no step need follow: patience counts from here
    } else {
      first_signal = 0;
    }
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &previous[i]);
    thread = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  ~State() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
    thread.request_stop();
    ::sem_post(&signals_arrived);
    thread.join();
    ::sem_destroy(&signals_arrived);
    is_left_over = first_signal != 0 && !is_over;
    is_in_use = false;
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void watch(const std::stop_token& stop) {
    if (!is_signalled) {
      wait_for_signal();
      if (stop.stop_requested()) return;
      if (!has_begun() && !is_unsaved()) end_now();
      is_signalled = true;
    }
    while (!stop.stop_requested()) {
      const bool again = wait_a_little();
      if (stop.stop_requested()) return;
      if (again || is_at_its_end()) end_now();
    }
  }

  [[nodiscard]] static TimePoint now() { return BootClock::now(); }

  void step_done() {
    const std::lock_guard lock(mutex);
    pace.step_done(now());
  }
  bool has_begun() {
    const std::lock_guard lock(mutex);
    return pace.has_begun();
  }
  bool is_stuck() {
    const std::lock_guard lock(mutex);
    return !pace.has_begun() || pace.is_stuck(options.patience, now());
  }

  /// No step follows, and no checkpoint is being written, or for too long.
  bool is_at_its_end() {
    if (!is_stuck()) {
      stuck_since.reset();
      return false;
    }
    if (!stuck_since) stuck_since = now();
    const bool is_waited_for = runtime::is_something_unfinished() || is_unsaved();
    return !is_waited_for || now() > *stuck_since + options.unfinished;
  }

  bool is_unsaved() {
    const std::lock_guard lock(mutex);
    return has_unsaved && !pace.is_known();
  }

  [[nodiscard]] std::string key(const Context& context, const std::string& name) const {
    return fmt::format("ddprun/drain/{}/{}/{}", context.restart_count(), number, name);
  }

  const DrainOptions options;
  const int number = drains_made++;  ///< the same on every rank: see the header
  std::array<struct sigaction, kSignals.size()> previous{};
  std::function<void()> callback;
  std::int64_t step = 0;
  std::optional<std::int64_t> stop_step;
  int meetings = 0;
  bool is_over = false;
  bool is_together = false;
  std::atomic<bool> is_signalled = is_left_over.exchange(false);
  std::mutex mutex;
  StepPace pace;                         ///< under the mutex
  bool has_unsaved = false;              ///< under the mutex
  std::optional<TimePoint> stuck_since;  ///< of the thread
  std::jthread thread;
};

Drain::Drain(DrainOptions options) : state_(std::make_unique<State>(options)) {}
Drain::~Drain() = default;

void Drain::on_drain(std::function<void()> callback) { state_->callback = std::move(callback); }
bool Drain::is_together() const { return state_->is_together; }

int Drain::signal() const { return first_signal; }

bool Drain::requested(const Context& context) {
  State& state = *state_;
  if (state.is_over) return true;
  ++state.step;
  state.step_done();
  // After the first step nobody knows how many fit into `spread`: the second one is waited for.
  if (!state.stop_step && state.is_signalled && state.pace.is_known()) {
    state.stop_step = agree_on_step(*context.store(), state.key(context, "step"),
                                    state.step + state.pace.margin(state.options.spread));
  }
  while (state.stop_step && state.step >= *state.stop_step) {
    take_time();
    const std::string place = state.key(context, fmt::format("meeting {}", ++state.meetings));
    const std::optional<runtime::Attendance> all = runtime::meet(
        *context.store(), place, context.rank(), context.world_size(), state.step, state.options.meeting);
    state.is_together = all && all->first == all->last;
    state.is_over = !all || state.is_together;
    if (state.is_together && state.callback) state.callback();
    if (state.is_over) return true;
    // Some rank is past the step, and its collectives of the steps since wait for the others.
    state.stop_step = all->last;
  }
  return false;
}

void Drain::has_unsaved(bool has) {
  const std::lock_guard lock(state_->mutex);
  state_->has_unsaved = has;
}

void Drain::progress() {
  const std::lock_guard lock(state_->mutex);
  state_->pace.progress(State::now());
}

void Drain::take_time() {
  const std::lock_guard lock(state_->mutex);
  state_->pace.measure_step(State::now());
}

}  // namespace ddprun
