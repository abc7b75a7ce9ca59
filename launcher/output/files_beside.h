#pragma once

#include "launcher/output/lost_output.h"
#include "rendezvous/base/beside_loop.h"
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
///          fork while one is there. Where none can be started, the loop does the work.
/// End      what still hangs is left to the end of the process.
class FilesBeside {
 public:
  explicit FilesBeside(boost::asio::io_context& io) : io_(io) {}

  /// Makes the file `name` of so many bytes by `work`, which holds no references; `on_done` gets what became
  /// of it, unless it was abandoned, and never from inside this.
  void make(std::string name, std::size_t bytes, const BesideLoop<Result<void>>::Work& work,
            std::function<void(const Result<void>&)> on_done);
  [[nodiscard]] bool is_waiting() const { return !waiting_.empty(); }
  /// Called each time nothing is waited for any more.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }
  /// Waits no longer; returns what was waited for.
  std::vector<LostOutput> abandon();
  /// Lets go of the loop.
  void close() { waiting_.clear(); }

 private:
  struct File {
    std::string name;
    std::size_t bytes = 0;
    std::unique_ptr<BesideLoop<Result<void>>> work;
  };
  boost::asio::io_context& io_;
  std::vector<File> waiting_;
  std::function<void()> on_empty_;
};

}  // namespace ddprun::launcher
