#pragma once

#include "launcher/process/lost_output.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// Files that are made beside the loop when the job is over, each by a thread of its own: opening, renaming
/// and removing can hang with their file system as writing can, and then nothing must wait for them for ever.
///
/// Threads  methods are for the loop's thread. Those of the files may do anything, so that the loop's may not
///          fork while one is there; they have every signal blocked. Where none can be started, the loop does
///          the work.
/// End      what still hangs is left to the end of the process. Call `close` first.
class FilesBeside {
 public:
  explicit FilesBeside(boost::asio::io_context& io);
  ~FilesBeside() { close(); }

  /// Makes the file `name` of so many bytes by `work`, which holds no references; `on_done` gets what became
  /// of it, unless it was abandoned.
  void make(std::string name, std::size_t bytes, std::function<Result<void>()> work,
            std::function<void(const Result<void>&)> on_done);
  [[nodiscard]] bool is_waiting() const { return !waiting_.empty(); }
  /// Called each time nothing is waited for any more.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }
  /// Waits no longer; returns what was waited for.
  std::vector<LostOutput> abandon();
  /// Lets go of the loop.
  void close();

 private:
  struct Door;
  void take(std::size_t number, const Result<void>& result);

  struct File {
    std::size_t number = 0;
    std::string name;
    std::size_t bytes = 0;
    std::function<void(const Result<void>&)> on_done;
  };
  std::shared_ptr<Door> door_;
  std::vector<File> waiting_;
  std::size_t count_ = 0;
  std::function<void()> on_empty_;
};

}  // namespace ddprun::launcher
