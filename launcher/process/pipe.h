#pragma once

#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <optional>

namespace ddprun::launcher {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// None: errno says why. `flags` are those of pipe2(2), beside O_CLOEXEC.
inline std::optional<Pipe> open_pipe(int flags = 0) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | flags) != 0) return std::nullopt;
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace ddprun::launcher
