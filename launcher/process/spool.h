#pragma once

#include "rendezvous/base/unique_fd.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A queue of bytes on disk, in unlinked files: first in, first out. When one directory has no room, the next
/// one is used.
class Spool {
 public:
  explicit Spool(std::vector<std::string> directories) : directories_(std::move(directories)) {}

  /// Returns how many bytes found room; all but a few when there is any disk left.
  std::size_t push(std::string_view bytes);
  /// The next bytes, at most `limit`; empty when there are none, or when they cannot be read back.
  std::string pop(std::size_t limit);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  void clear();

 private:
  struct File {
    UniqueFd fd;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  std::vector<std::string> directories_;
  std::size_t next_directory_ = 0;
  std::deque<File> files_;
  std::uint64_t size_ = 0;
};

}  // namespace ddprun::launcher
