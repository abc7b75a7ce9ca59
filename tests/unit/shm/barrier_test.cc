#include "worker/runtime/comm/shm/barrier.h"

#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/unit/shm/ranks.h"

#include <sched.h>

#include <thread>

using namespace ddprun;
using namespace ddprun::runtime::shm;
using namespace std::chrono_literals;

namespace {

constexpr int kBarriers = 100;

cpu_set_t allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  REQUIRE(::sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
  return cpus;
}

// Rank 1, as far as rank 0 can see: it comes when the other sleeps, and says that it runs where that did.
void come_last_to_every_barrier(const Segment& segment) {
  for (std::uint64_t ticket = 1; ticket <= kBarriers; ++ticket) {
    while (segment.post(0, ticket).ticket < ticket) std::this_thread::yield();
    while (segment.sleep_state().sleepers == 0) std::this_thread::yield();
    segment.rank_state(1).cpu = segment.rank_state(0).cpu.load();
    segment.post(1, ticket).ticket = ticket;
    Barrier::wake_everyone(segment);
  }
}

}  // namespace

TEST_CASE("a rank that is woken on the processor of a peer moves to another") {
  const cpu_set_t allowed = allowed_cpus();
  if (CPU_COUNT(&allowed) < 2) return testing::skipped("needs two processors");
  const std::shared_ptr<Segment> segment = Segment::create(testing::small_shape(2)).value();
  std::thread peer([&] { come_last_to_every_barrier(*segment); });

  Barrier barrier(segment, 0);
  int moved = 0;
  for (int i = 0; i < kBarriers; ++i) {
    barrier.arrive();
    CHECK(barrier.wait(BootClock::now() + 60s) == WaitEnd::kOpen);
    moved += ::sched_getcpu() != segment->rank_state(1).cpu ? 1 : 0;
  }
  peer.join();
  // The kernel may move this thread back between two looks.
  CHECK(moved > kBarriers / 2);
  const cpu_set_t afterwards = allowed_cpus();
  CHECK(CPU_EQUAL(&allowed, &afterwards));
}
