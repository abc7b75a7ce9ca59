#include "launcher/process/guard_board.h"

#include "rendezvous/base/check.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <utility>

namespace ddprun::launcher {

void GuardBoard::Unmap::operator()(void* memory) const { ::munmap(memory, bytes); }

Result<GuardBoard> GuardBoard::make(std::size_t workers) {
  const std::size_t bytes = sizeof(Page) + workers * sizeof(Session);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return os_error("cannot share memory with the guard processes: mmap", errno);
  return GuardBoard(std::unique_ptr<void, Unmap>(memory, Unmap{bytes}), workers);
}

GuardBoard::GuardBoard(std::unique_ptr<void, Unmap> memory, std::size_t workers)
    : memory_(std::move(memory)),
      page_(new (memory_.get()) Page),
      sessions_(reinterpret_cast<Session*>(page_ + 1)),
      count_(workers) {
  for (std::size_t i = 0; i < count_; ++i) new (sessions_ + i) Session(0);
}

GuardBoard::Session* GuardBoard::free_session() {
  const std::span<Session> all(sessions_, count_);
  const auto found = std::find_if(all.begin(), all.end(), [](const Session& each) { return each == 0; });
  DDPRUN_CHECK(found != all.end(), "each worker has one place, and gives it back when it is reaped");
  return &*found;
}

void GuardBoard::forget_session(pid_t session) {
  for (Session& each : std::span(sessions_, count_)) {
    if (each == session) each = 0;
  }
}

std::set<pid_t> GuardBoard::sessions() const {
  std::set<pid_t> result;
  for (const Session& each : std::span<const Session>(sessions_, count_)) {
    if (const pid_t session = each; session != 0) result.insert(session);
  }
  return result;
}

}  // namespace ddprun::launcher
