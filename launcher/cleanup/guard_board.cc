#include "launcher/cleanup/guard_board.h"

#include "rendezvous/base/check.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace ddprun::launcher {

void GuardBoard::Unmap::operator()(void* memory) const { ::munmap(memory, bytes); }

Result<GuardBoard> GuardBoard::make(std::size_t workers) {
  const std::size_t bytes = sizeof(Page) + (workers + workers + kMostEnded) * sizeof(Session);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return os_error("cannot share memory with the guard processes: mmap", errno);
  return GuardBoard(std::unique_ptr<void, Unmap>(memory, Unmap{bytes}), workers);
}

GuardBoard::GuardBoard(std::unique_ptr<void, Unmap> memory, std::size_t workers)
    : memory_(std::move(memory)),
      page_(new (memory_.get()) Page),
      sessions_(reinterpret_cast<Session*>(page_ + 1), workers),
      ended_(sessions_.data() + workers, workers + kMostEnded) {
  for (Session& each : sessions_) new (&each) Session(0);
  for (std::atomic<pid_t>& each : ended_) new (&each) std::atomic<pid_t>(0);
}

GuardBoard::Session* GuardBoard::free_session() {
  const auto found =
      std::find_if(sessions_.begin(), sessions_.end(), [](const Session& each) { return each == 0; });
  DDPRUN_CHECK(found != sessions_.end(), "each worker has one place, and gives it back when it is reaped");
  return &*found;
}

void GuardBoard::end_session(pid_t session) {
  ended_[next_worker_] = session;  // first: at no moment does nobody know it
  next_worker_ = (next_worker_ + 1) % sessions_.size();
  for (Session& each : sessions_) {
    if (each == session) each = 0;
  }
}

std::set<pid_t> GuardBoard::sessions() const {
  std::set<pid_t> result;
  for (const Session& each : sessions_) {
    if (const pid_t session = each; session != 0) result.insert(session);
  }
  return result;
}

void GuardBoard::note_ended(pid_t pid) {
  ended_[sessions_.size() + next_other_] = pid;
  next_other_ = (next_other_ + 1) % kMostEnded;
}

void GuardBoard::forget_ended() {
  for (std::atomic<pid_t>& each : ended_) each = 0;
  next_worker_ = next_other_ = 0;
}

std::set<pid_t> GuardBoard::makers() const {
  std::set<pid_t> result = sessions();
  for (const std::atomic<pid_t>& each : ended_) {
    if (const pid_t pid = each; pid != 0) result.insert(pid);
  }
  return result;
}

}  // namespace ddprun::launcher
