#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::training {

/// What the live line shows.
struct LiveLine {
  std::int64_t epoch = 0;  ///< the one running, from 1
  std::int64_t epochs = 1;
  std::int64_t step = 0;   ///< within the epoch
  std::int64_t steps = 1;  ///< of the epoch
  double loss = 0;         ///< mean of the epoch so far
  double rate = 0;
  std::string unit = "samples";  ///< of the rate
  double learning_rate = 0;
  std::int64_t memory_bytes = 0;       ///< that rank 0 holds on its host; 0: not known
  std::int64_t gpu_bytes = 0;          ///< that it has taken of its GPU for tensors; 0: it has none
  std::optional<double> seconds_left;  ///< of the job, at this rate; without evaluations and checkpoints
};

/// One line of at most `columns` characters. Where not all fits, the share of the epoch is left out first, then the
/// words become shorter, and what does not fit even so is left out, the last part first: with large numbers, 79 columns
/// have no room for the host's memory beside a GPU's.
std::string format_live_line(const LiveLine& live, std::size_t columns);

}  // namespace ddprun::training
