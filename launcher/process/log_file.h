#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// mkdir -p. kOs with the first directory that cannot be made.
Result<void> make_directories(const std::string& path);

/// A log file that is written to as far as the disk allows. A full disk does not end a job: what cannot be
/// written is counted, said once, and marked in the file at the place where it is missing as soon as there is
/// room again.
class LogFile {
 public:
  /// Creates or truncates. Errors kOs.
  static Result<LogFile> open(const std::string& path);

  /// Blocks for as long as the file system does.
  void write(std::string_view data);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t lost_bytes() const { return lost_total_; }
  /// Called with a sentence when bytes are lost for the first time.
  void set_on_trouble(std::function<void(const std::string&)> on_trouble) {
    on_trouble_ = std::move(on_trouble);
  }

 private:
  LogFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  std::size_t write_some(std::string_view data);

  UniqueFd fd_;
  std::string path_;
  std::uint64_t lost_here_ = 0;
  std::uint64_t lost_total_ = 0;
  std::function<void(const std::string&)> on_trouble_;
};

/// The last bytes of a file, for a worker that writes its stderr to one itself; empty when it cannot be read.
std::string read_tail(const std::string& path, std::size_t limit);

}  // namespace ddprun::launcher
