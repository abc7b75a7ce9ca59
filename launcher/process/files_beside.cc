#include "launcher/process/files_beside.h"

#include "rendezvous/base/gate.h"
#include "rendezvous/base/quiet_thread.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun::launcher {

// The way back to the loop, which a thread that hung may find closed.
struct FilesBeside::Door {
  std::mutex mutex;
  boost::asio::io_context* io = nullptr;
  Gate gate;  // FilesBeside's; closed under the mutex, for the threads pass it
};

FilesBeside::FilesBeside(boost::asio::io_context& io) : door_(std::make_shared<Door>()) { door_->io = &io; }

void FilesBeside::make(std::string name, std::size_t bytes, std::function<Result<void>()> work,
                       std::function<void(const Result<void>&)> on_done) {
  const std::size_t number = ++count_;
  waiting_.push_back({number, std::move(name), bytes, std::move(on_done)});
  std::thread thread;
  const int no_thread = start_quietly(thread, [this, number, work, door = door_] {
    const Result<void> result = work();
    const std::lock_guard lock(door->mutex);
    if (door->io == nullptr) return;  // and `this` may be gone
    boost::asio::post(*door->io, door->gate.pass([this, number, result] { take(number, result); }));
  });
  if (no_thread != 0) return take(number, work());
  thread.detach();
}

void FilesBeside::take(std::size_t number, const Result<void>& result) {
  const auto file =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const File& one) { return one.number == number; });
  if (file == waiting_.end()) return;  // abandoned
  const auto on_done = std::move(file->on_done);
  waiting_.erase(file);
  on_done(result);
  if (waiting_.empty() && on_empty_) on_empty_();
}

std::vector<LostOutput> FilesBeside::abandon() {
  std::vector<LostOutput> lost;
  for (const File& file : std::exchange(waiting_, {})) {
    lost.push_back({file.name, file.bytes, "its file system did not take it in time"});
  }
  return lost;
}

void FilesBeside::close() {
  const std::lock_guard lock(door_->mutex);
  door_->gate.close();
  door_->io = nullptr;
}

}  // namespace ddprun::launcher
