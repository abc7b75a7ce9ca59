#pragma once

#include "launcher/output/lost_output.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ddprun::launcher {

/// Writes files on a thread of its own, so that a file system that hangs (a dead NFS server, a frozen disk)
/// never holds up the loop, which keeps the node's lease; see FileWriters for those of several.
///
/// Bounds   `kMostWaiting` bytes wait for all files together; what is beyond is dropped and counted.
/// Threads  all methods are for the loop's thread. The other one exists from the first write on, has every
///          signal blocked, and does nothing but write(2) and close(2). Where it cannot be started (a limit
///          of processes or descriptors), bytes are lost and counted.
/// Fork     that thread allocates nothing and holds no lock but the one in here, so that a process that the
///          loop forks (guard.h) finds everything it uses as if there were one thread.
/// End      the destructor waits for a thread that works, and leaves one behind that hangs in the kernel; it
///          ends with the process. Call `close` first, or the loop does not end.
class FileWriter {
 public:
  static constexpr std::size_t kMostWaiting = 64 * 1024 * 1024;

  enum class Gaps { kMarked, kUnmarked };
  struct File;

  /// Owns a file until it is destroyed; what waits then is still written, and the file closed.
  class Handle {
   public:
    Handle() = default;
    Handle(Handle&& other) noexcept = default;
    Handle& operator=(Handle&& other) noexcept;
    ~Handle();

    /// Never blocks.
    void write(std::string_view bytes);
    [[nodiscard]] int fd() const;
    /// Called with a sentence when bytes of this file are lost for the first time.
    void set_on_trouble(std::function<void(const std::string&)> on_trouble);

   private:
    friend class FileWriter;
    Handle(FileWriter& writer, std::shared_ptr<File> file) : writer_(&writer), file_(std::move(file)) {}
    FileWriter* writer_ = nullptr;
    std::shared_ptr<File> file_;
  };

  explicit FileWriter(boost::asio::io_context& io);
  ~FileWriter();

  /// `name` is what losses are told by; with kMarked a gap is marked in the file at the place where bytes are
  /// missing, once there is room again. The writer outlives the handle.
  Handle add(UniqueFd fd, std::string name, Gaps gaps);

  [[nodiscard]] std::uint64_t waiting_bytes() const;
  [[nodiscard]] std::uint64_t written_bytes() const;
  /// What was lost so far, by file; what waits now counts as well.
  [[nodiscard]] std::vector<LostOutput> losses() const;
  /// What waits now is lost and not written any more: `losses` is exact then, unless a write hangs, which is
  /// waited for for a fifth of a second.
  void abandon();
  /// Passes on at once what the loop would hear of later.
  void hear_news();
  /// Called each time nothing waits any more.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }
  /// Lets go of the loop.
  void close();

 private:
  struct Shared;
  struct News;
  static void run(const std::shared_ptr<Shared>& shared);
  void push(File& file, std::string_view bytes);
  void release(const std::shared_ptr<File>& file);
  /// 0, or the errno that tells why there is none; then the next byte asks again.
  int start_thread();
  void wait_for_news();
  void hear(const News& news);

  boost::asio::posix::stream_descriptor news_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<File>> files_;
  std::vector<LostOutput> lost_by_closed_;
  std::function<void()> on_empty_;
  std::thread thread_;
  Gate gate_;
};

}  // namespace ddprun::launcher
