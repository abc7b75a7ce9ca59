#pragma once

#include <cstdint>
#include <string>

namespace ddprun::training {

/// "12,345".
std::string with_thousands(std::int64_t value);
/// "images", and "image" for one.
std::string unit_for(std::int64_t count, const std::string& units);
/// "2 of 3 epochs"; of a job that was made shorter than it is by now "2 epochs (/train/epochs is 1)".
std::string epochs_in_words(std::int64_t done, std::int64_t planned);
/// "0.1234", and "2.03e+32" of what has grown beyond reading.
std::string human_loss(double loss);
/// "1:02:03", "2:03" or "3 s": a duration for people.
std::string human_seconds(double seconds);
/// `path` as seen from `folder` where that is shorter, otherwise as it is.
std::string shown_path(const std::string& path, const std::string& folder);

}  // namespace ddprun::training
