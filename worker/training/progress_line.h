#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::training {

/// What the live line shows.
struct Progress {
  std::int64_t epoch = 0;  ///< the one running, from 1
  std::int64_t epochs = 1;
  std::int64_t step = 0;   ///< within the epoch
  std::int64_t steps = 1;  ///< of the epoch
  double loss = 0;         ///< mean of the epoch so far
  double images_per_second = 0;
};

/// One line of at most `columns` characters: parts that do not fit are left out, the last ones first.
std::string format_progress(const Progress& progress, std::size_t columns);

}  // namespace ddprun::training
