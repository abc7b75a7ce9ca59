#include "worker/runtime/comm/shm/barrier.h"

#include "worker/runtime/comm/shm/futex.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace ddprun::runtime::shm {
namespace {

using namespace std::chrono_literals;

/// Longer than the usual difference between ranks that do the same work, and than a wake-up in a virtual
/// machine.
constexpr Duration kSpinTime = 100us;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Linux remembers what is set here as the thread's own wish. All processors, also those to come: where it might
// use all that are online, nothing had been asked for; else it keeps what it had, and does not follow a container
// to processors that this gets later.
void restore_affinity(const cpu_set_t& allowed) {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all));
  const bool is_free = CPU_COUNT(&allowed) >= ::sysconf(_SC_NPROCESSORS_ONLN);
  if (is_free || ::sched_setaffinity(0, sizeof(allowed), &allowed) != 0)
    ::sched_setaffinity(0, sizeof(all), &all);
}

}  // namespace

Barrier::Barrier(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->shape().size),
      has_a_cpu_each_(usable_cores() >= size_),
      // With more ranks than cores, spinning keeps from running the very rank that is waited for.
      spin_time_(has_a_cpu_each_ ? kSpinTime : Duration::zero()),
      watch_(size_) {}

void Barrier::arrive() {
  ++ticket_;
  tell_cpu();
  // Sequentially consistent, like sleep()'s: either the sleeper sees this ticket or this rank sees the
  // sleeper.
  segment_->post(rank_, ticket_).ticket.store(ticket_, std::memory_order_seq_cst);
  if (segment_->sleep_state().sleepers.load(std::memory_order_seq_cst) > 0 && have_all_arrived()) {
    wake_everyone(*segment_);
  }
}

bool Barrier::have_all_arrived() const {
  for (int peer = 0; peer < size_; ++peer) {
    if (segment_->post(peer, ticket_).ticket.load(std::memory_order_seq_cst) < ticket_) return false;
  }
  return true;
}

WaitEnd Barrier::wait(TimePoint deadline, Duration patience) {
  if (spin(std::min(spin_time_, patience))) return pass();
  const WaitEnd end = sleep(deadline, after(patience));
  if (end != WaitEnd::kOpen) return end;
  if (has_a_cpu_each_) leave_peers_cpu();
  return pass();
}

// A rank that came too late for the others finds all of them here, but they have gone. A failure of later than this
// barrier is no matter of it: all have passed.
WaitEnd Barrier::pass() {
  const Failure* const failure = segment_->failure();
  if (failure != nullptr && failure->barrier <= ticket_) return WaitEnd::kFailed;
  passed_ = ticket_;
  return WaitEnd::kOpen;
}

bool Barrier::spin(Duration at_most) const {
  constexpr int kLooksPerClock = 64;
  TimePoint end{};
  int peer = 0;
  while (true) {
    for (int look = 0; look < kLooksPerClock; ++look) {
      while (peer < size_ && has_arrived(peer)) ++peer;
      if (peer == size_) return true;
      pause();
    }
    const TimePoint time = now();
    if (end == TimePoint{}) end = time + at_most;
    if (time >= end || shares_cpu_with(peer)) return false;
  }
}

void Barrier::tell_cpu() {
  std::atomic<std::int32_t>& cpu = segment_->rank_state(rank_).cpu;
  const int here = ::sched_getcpu();
  if (cpu.load(std::memory_order_relaxed) != here) cpu.store(here, std::memory_order_relaxed);
}

// Asleep, this rank makes room for the other one, and the scheduler may wake it elsewhere.
bool Barrier::shares_cpu_with(int first_missing) const {
  const int here = ::sched_getcpu();
  for (int peer = first_missing; peer < size_; ++peer) {
    if (peer != rank_ && !has_arrived(peer) &&
        segment_->rank_state(peer).cpu.load(std::memory_order_relaxed) == here) {
      return true;
    }
  }
  return false;
}

// Where every processor is busy, the kernel wakes a thread on the one of its waker, which has work to do as
// well, and separates the two only after tens of milliseconds.
void Barrier::leave_peers_cpu() {
  tell_cpu();
  cpu_set_t peers;
  CPU_ZERO(&peers);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) CPU_SET(segment_->rank_state(peer).cpu.load(std::memory_order_relaxed), &peers);
  }
  cpu_set_t allowed;
  if (!CPU_ISSET(::sched_getcpu(), &peers) || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t free;
  CPU_AND(&free, &allowed, &peers);
  CPU_XOR(&free, &free, &allowed);
  if (CPU_COUNT(&free) == 0 || ::sched_setaffinity(0, sizeof(free), &free) != 0) return;
  restore_affinity(allowed);  // it is there now, and may go wherever it might before
  tell_cpu();
}

WaitEnd Barrier::sleep(TimePoint deadline, TimePoint give_up) {
  SleepState& state = segment_->sleep_state();
  struct Count {
    std::atomic<std::uint32_t>& sleepers;
    explicit Count(std::atomic<std::uint32_t>& count) : sleepers(count) {
      sleepers.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Count() { sleepers.fetch_sub(1, std::memory_order_seq_cst); }
  } const count(state.sleepers);

  TimePoint watched = now();
  while (true) {
    const std::uint32_t seen = state.wake.load(std::memory_order_acquire);
    if (have_all_arrived()) return WaitEnd::kOpen;
    // The last rank may have come since, gone on, and failed later.
    if (segment_->failure() != nullptr) return have_all_arrived() ? WaitEnd::kOpen : WaitEnd::kFailed;
    if (is_aborted_.load(std::memory_order_acquire)) return WaitEnd::kAborted;
    if (!left().empty()) return WaitEnd::kPeerLeft;
    const TimePoint time = now();
    if (time >= give_up) return WaitEnd::kGaveUp;
    if (time >= deadline) return WaitEnd::kTimedOut;
    if (time - watched >= kWatchInterval) {
      watched = time;
      if (!dead().empty()) return WaitEnd::kPeerDied;
    }
    futex_wait(state.wake, seen, std::min({kWatchInterval, deadline - time, give_up - time}));
  }
}

std::vector<int> Barrier::missing() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (!has_arrived(peer)) ranks.push_back(peer);
  }
  return ranks;
}

std::vector<int> Barrier::dead() {
  std::vector<int> ranks;
  for (const int peer : missing()) {
    const RankState& state = segment_->rank_state(peer);
    if (state.state.load(std::memory_order_acquire) == RankState::kAbsent) continue;
    const bool is_dead = watch_.is_dead(peer, {.pid = state.pid, .start_time = state.start_time});
    if (is_dead && !has_arrived(peer)) ranks.push_back(peer);
  }
  return ranks;
}

std::vector<int> Barrier::left() const {
  std::vector<int> ranks;
  for (const int peer : missing()) {
    const bool has_left =
        segment_->rank_state(peer).state.load(std::memory_order_acquire) == RankState::kLeft;
    // Asked again: it may have arrived, and then left, since missing() looked.
    if (has_left && !has_arrived(peer)) ranks.push_back(peer);
  }
  return ranks;
}

void Barrier::abort() {
  is_aborted_.store(true, std::memory_order_release);
  wake_everyone(*segment_);
}

void Barrier::wake_everyone(const Segment& segment) {
  SleepState& state = segment.sleep_state();
  state.wake.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(state.wake);
}

}  // namespace ddprun::runtime::shm
