#pragma once

#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::launcher::why {

/// Reads `size` bytes at an address of another process into `into`; false: not all of them can be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* into, std::size_t size)>;

/// The memory of a process, read through /proc without stopping it.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid);

  /// Needs the rights of a debugger: an ancestor's, or CAP_SYS_PTRACE's. Empty: it can be read.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] ReadMemory reader() const;
  /// A text that ends with 0, up to 4095 bytes; empty: not readable.
  [[nodiscard]] std::string text_at(std::uint64_t address) const;

 private:
  UniqueFd file_;
  std::string problem_;
};

}  // namespace ddprun::launcher::why
