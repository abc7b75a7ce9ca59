#include "worker/runtime/checkpoint/unfinished.h"

#include <condition_variable>
#include <mutex>

namespace ddprun::runtime {
namespace {

struct Count {
  std::mutex mutex;
  std::condition_variable changed;
  int value = 0;
};

Count& count() {
  static Count& one = *new Count;  // threads may outlive static objects
  return one;
}

}  // namespace

Unfinished::Unfinished() {
  const std::lock_guard lock(count().mutex);
  ++count().value;
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(count().mutex);
  if (--count().value == 0) count().changed.notify_all();
}

bool is_something_unfinished() {
  const std::lock_guard lock(count().mutex);
  return count().value > 0;
}

void wait_for_the_unfinished(std::chrono::milliseconds most) {
  std::unique_lock lock(count().mutex);
  count().changed.wait_for(lock, most, [] { return count().value == 0; });
}

}  // namespace ddprun::runtime
