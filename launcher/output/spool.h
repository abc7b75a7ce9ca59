#pragma once

#include "rendezvous/base/unique_fd.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// A queue of bytes, first in, first out, in an anonymous file of the kernel's memory (memfd): what waits
/// there is not in our address space, can be swapped out, and waits for no disk. Its bytes go round in a file of
/// `room()` bytes, for a limit on the size of files (RLIMIT_FSIZE) holds for this one, too.
class Spool {
 public:
  static constexpr std::uint64_t kMostRoom = 64 * 1024 * 1024;

  Spool();

  /// kMostRoom, or the limit of this process where that is less.
  [[nodiscard]] std::uint64_t room() const { return room_; }
  /// Returns how many bytes found room; all that room() has unless the machine has no memory left.
  std::size_t push(std::string_view bytes);
  /// The next bytes, at most `limit`, and no more than lie together; empty when there are none.
  std::string pop(std::size_t limit);
  [[nodiscard]] std::uint64_t size() const { return end_ - begin_; }
  void clear();

 private:
  /// Of the byte that was pushed as number `count`; and how many lie behind it until the file's end.
  [[nodiscard]] std::uint64_t offset(std::uint64_t count) const { return count % room_; }
  [[nodiscard]] std::uint64_t until_end(std::uint64_t count) const { return room_ - offset(count); }

  std::uint64_t room_;
  UniqueFd file_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace ddprun::launcher
