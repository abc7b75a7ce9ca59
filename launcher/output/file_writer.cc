#include "launcher/output/file_writer.h"

#include "rendezvous/base/quiet_thread.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace ddprun::launcher {

// Fields without a note are guarded by Shared::mutex.
struct FileWriter::File {
  UniqueFd fd;                  // closed by the thread
  std::string name;             // never changes
  Gaps gaps = Gaps::kUnmarked;  // never changes
  std::string queued;           // grows on the loop
  std::string writing;          // the thread's alone while `is_busy`
  bool is_busy = false;
  bool is_queued = false;    // in the list of work
  bool is_told = false;      // in the list of news
  bool is_released = false;  // its handle is gone
  File* next_work = nullptr;
  File* next_news = nullptr;
  std::uint64_t written = 0;
  std::uint64_t lost = 0;
  std::uint64_t skipped_here = 0;  // dropped since the last byte that was queued
  std::uint64_t unmarked = 0;      // failed to be written since the last that was
  int error = 0;                   // of the last failure; 0: none, the queue was full
  // The loop's alone.
  bool is_reported = false;
  std::function<void(const std::string&)> on_trouble;
};

struct FileWriter::Shared {
  std::mutex mutex;
  std::condition_variable has_work;
  std::condition_variable has_written;
  std::atomic<bool> is_abandoned{false};  // the write that is going on ends with its piece
  File* first_work = nullptr;
  File* last_work = nullptr;
  File* news = nullptr;
  bool is_stopping = false;
  bool is_writing = false;
  std::uint64_t waiting = 0;
  std::uint64_t written = 0;
  UniqueFd bell;  // rung when there is news
  // Keeps what a thread that is left behind still looks at.
  std::vector<std::shared_ptr<File>> left_behind;

  void add_work(File& file) {
    if (file.is_queued || file.is_busy) return;
    file.is_queued = true;
    file.next_work = nullptr;
    (last_work == nullptr ? first_work : last_work->next_work) = &file;
    last_work = &file;
  }
  File* next_file() {
    File* const file = first_work;
    if (file == nullptr) return nullptr;
    first_work = file->next_work;
    if (first_work == nullptr) last_work = nullptr;
    file->is_queued = false;
    return file;
  }
  void tell(File& file) {
    if (file.is_told) return;
    file.is_told = true;
    file.next_news = std::exchange(news, &file);
    if (file.next_news != nullptr) return;  // rung already
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t rung = ::write(bell.get(), &one, sizeof one);
  }
};

struct FileWriter::News {
  File* file = nullptr;
  std::uint64_t lost = 0;
  int error = 0;
  bool is_idle = false;
  bool is_closed = false;
};

namespace {

constexpr std::size_t kPiece = 256 * 1024;
constexpr auto kForAPiece = std::chrono::milliseconds(200);

// How much was written; errno tells why not all, 0 where it was told to stop.
std::size_t write_some(int fd, std::string_view data, const std::atomic<bool>& is_to_stop) {
  std::size_t done = 0;
  while (done < data.size()) {
    if (is_to_stop) {
      errno = 0;
      break;
    }
    const ssize_t written = ::write(fd, data.data() + done, std::min(kPiece, data.size() - done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

bool write_mark(int fd, std::uint64_t missing, const std::atomic<bool>& is_to_stop) {
  std::array<char, 80> mark;
  const auto end = fmt::format_to_n(mark.data(), mark.size(),
                                    "\n[ddprun: {} bytes are missing here: the disk was full]\n", missing)
                       .out;
  const auto size = static_cast<std::size_t>(end - mark.data());
  return write_some(fd, {mark.data(), size}, is_to_stop) == size;
}

std::string reason(int error) {
  return error == 0 ? "its file system did not take it in time" : std::strerror(error);
}

}  // namespace

FileWriter::FileWriter(boost::asio::io_context& io) : news_(io), shared_(std::make_shared<Shared>()) {}

FileWriter::~FileWriter() {
  close();
  if (!thread_.joinable()) return;
  bool hangs = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_stopping = true;
    hangs = shared_->is_writing;
    if (hangs) shared_->left_behind = files_;
  }
  shared_->has_work.notify_one();
  if (hangs) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void FileWriter::close() {
  gate_.close();
  boost::system::error_code ignored;
  news_.close(ignored);
}

FileWriter::Handle FileWriter::add(UniqueFd fd, std::string name, Gaps gaps) {
  files_.push_back(std::make_shared<File>());
  files_.back()->fd = std::move(fd);
  files_.back()->name = std::move(name);
  files_.back()->gaps = gaps;
  return {*this, files_.back()};
}

int FileWriter::start_thread() {
  if (thread_.joinable() || !gate_.is_open()) return 0;
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return errno;
  UniqueFd heard(::fcntl(bell.get(), F_DUPFD_CLOEXEC, 3));
  if (!heard) return errno;
  boost::system::error_code refused;
  news_.assign(heard.get(), refused);
  if (refused) return refused.value();
  static_cast<void>(heard.release());
  shared_->bell = std::move(bell);
  if (const int error = start_quietly(thread_, [shared = shared_] { run(shared); }); error != 0) {
    news_.close(refused);
    return error;
  }
  wait_for_news();
  return 0;
}

// The thread. What it must not do is in the header.
void FileWriter::run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->has_work.wait(lock, [&] { return shared->first_work != nullptr || shared->is_stopping; });
    File* const file = shared->next_file();
    if (file == nullptr || shared->is_stopping) return;
    file->writing.swap(file->queued);
    file->is_busy = shared->is_writing = true;
    const bool closes = file->is_released && file->writing.empty();
    const std::uint64_t unmarked = file->gaps == Gaps::kMarked ? file->unmarked : 0;
    const int fd = file->fd.get();
    lock.unlock();
    std::size_t done = 0;
    int error = 0;
    const bool is_marked = unmarked == 0 || closes || write_mark(fd, unmarked, shared->is_abandoned);
    if (closes) {
      file->fd.reset();
    } else if (is_marked) {
      done = write_some(fd, file->writing, shared->is_abandoned);
      error = errno;
    } else {
      error = errno;
    }
    lock.lock();
    const std::size_t missing = file->writing.size() - done;
    if (is_marked) file->unmarked = 0;
    if (missing > 0) file->error = error;
    (error == 0 ? file->skipped_here : file->unmarked) += missing;
    file->lost += missing;
    file->written += done;
    shared->written += done;
    shared->waiting -= file->writing.size();
    file->writing.clear();
    file->is_busy = shared->is_writing = shared->is_abandoned = false;
    shared->has_written.notify_one();
    if (!file->queued.empty() || (file->is_released && !closes)) shared->add_work(*file);
    shared->tell(*file);
  }
}

void FileWriter::push(File& file, std::string_view bytes) {
  if (bytes.empty()) return;
  const int no_thread = start_thread();
  std::string sentence;
  {
    const std::lock_guard lock(shared_->mutex);
    const bool is_full = shared_->waiting + bytes.size() > kMostWaiting;
    if (no_thread != 0 || is_full) {
      file.lost += bytes.size();
      file.skipped_here += bytes.size();
      file.error = no_thread;
      sentence =
          is_full
              ? fmt::format(
                    "{} is written too slowly, and {} MiB wait already for its file system; what comes now "
                    "is dropped, and counted",
                    file.name, kMostWaiting >> 20)
              : fmt::format("cannot write {}: its thread cannot be started: {}", file.name,
                            std::strerror(no_thread));
    } else {
      const std::size_t before = file.queued.size();
      if (file.skipped_here > 0 && file.gaps == Gaps::kMarked) {
        file.queued += fmt::format(
            "\n[ddprun: {} bytes are missing here: {}]\n", file.skipped_here,
            file.error == 0 ? "the file system did not take them in time" : std::strerror(file.error));
      }
      file.skipped_here = 0;
      file.queued += bytes;
      shared_->waiting += file.queued.size() - before;
      shared_->add_work(file);
    }
  }
  if (sentence.empty()) {
    shared_->has_work.notify_one();
  } else if (!std::exchange(file.is_reported, true) && file.on_trouble) {
    file.on_trouble(sentence);
  }
}

void FileWriter::release(const std::shared_ptr<File>& file) {
  file->on_trouble = nullptr;
  if (!thread_.joinable()) {  // nothing was ever written
    if (file->lost > 0) lost_by_closed_.push_back({file->name, file->lost, reason(file->error)});
    files_.erase(std::remove(files_.begin(), files_.end(), file), files_.end());
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  file->is_released = true;
  shared_->add_work(*file);
  shared_->has_work.notify_one();
}

void FileWriter::wait_for_news() {
  news_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   gate_.pass([this](boost::system::error_code error) {
                     if (error) return;
                     hear_news();
                     if (news_.is_open()) wait_for_news();
                   }));
}

void FileWriter::hear_news() {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t count = ::read(shared_->bell.get(), &rings, sizeof rings);
  std::vector<News> all;
  bool is_empty = false;
  {
    const std::lock_guard lock(shared_->mutex);
    for (File* file = std::exchange(shared_->news, nullptr); file != nullptr; file = file->next_news) {
      file->is_told = false;
      const bool is_idle = !file->is_busy && file->queued.empty();
      all.push_back({file, file->lost, file->error, is_idle, is_idle && !file->fd});
      if (!is_idle) continue;
      // Freed here, and not by the thread.
      file->queued = std::string();
      file->writing = std::string();
    }
    is_empty = shared_->waiting == 0;
  }
  for (const News& news : all) hear(news);
  if (is_empty && on_empty_) on_empty_();
}

void FileWriter::hear(const News& news) {
  File& file = *news.file;
  if (news.lost > 0 && !std::exchange(file.is_reported, true) && file.on_trouble) {
    file.on_trouble(fmt::format("cannot write {}: {}", file.name, reason(news.error)));
  }
  if (!news.is_closed) return;
  if (news.lost > 0) lost_by_closed_.push_back({file.name, news.lost, reason(news.error)});
  files_.erase(
      std::remove_if(files_.begin(), files_.end(), [&](const auto& one) { return one.get() == &file; }),
      files_.end());
}

FileWriter::Handle& FileWriter::Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  if (file_) writer_->release(file_);
  writer_ = other.writer_;
  file_ = std::move(other.file_);
  return *this;
}

FileWriter::Handle::~Handle() {
  if (file_) writer_->release(file_);
}

void FileWriter::Handle::write(std::string_view bytes) { writer_->push(*file_, bytes); }

int FileWriter::Handle::fd() const { return file_->fd.get(); }

void FileWriter::Handle::set_on_trouble(std::function<void(const std::string&)> on_trouble) {
  file_->on_trouble = std::move(on_trouble);
}

std::uint64_t FileWriter::waiting_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waiting;
}

std::uint64_t FileWriter::written_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->written;
}

void FileWriter::abandon() {
  std::unique_lock lock(shared_->mutex);
  for (const std::shared_ptr<File>& file : files_) {
    shared_->waiting -= file->queued.size();
    file->lost += file->queued.size();
    file->skipped_here += file->queued.size();
    file->queued.clear();
  }
  if (!shared_->is_writing) return;
  shared_->is_abandoned = true;
  shared_->has_written.wait_for(lock, kForAPiece, [this] { return !shared_->is_writing; });
}

std::vector<LostOutput> FileWriter::losses() const {
  std::vector<LostOutput> losses = lost_by_closed_;
  const std::lock_guard lock(shared_->mutex);
  for (const std::shared_ptr<File>& file : files_) {
    const std::uint64_t bytes = file->lost + file->queued.size() + file->writing.size();
    if (bytes > 0) losses.push_back({file->name, bytes, reason(file->error)});
  }
  return losses;
}

}  // namespace ddprun::launcher
