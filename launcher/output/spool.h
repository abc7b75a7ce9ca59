#pragma once

#include "rendezvous/base/unique_fd.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// A queue of bytes, first in, first out, in an anonymous file of the kernel's memory (memfd): what waits
/// there is not in our address space, can be swapped out, and waits for no disk.
class Spool {
 public:
  /// Returns how many bytes found room; all unless the machine has no memory left.
  std::size_t push(std::string_view bytes);
  /// The next bytes, at most `limit`; empty when there are none.
  std::string pop(std::size_t limit);
  [[nodiscard]] std::uint64_t size() const { return end_ - begin_; }
  void clear();

 private:
  UniqueFd file_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace ddprun::launcher
