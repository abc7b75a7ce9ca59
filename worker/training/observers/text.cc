#include "worker/training/observers/text.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace ddprun::training {

std::string with_thousands(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string unit_for(std::int64_t count, const std::string& units) {
  return count == 1 && units.ends_with('s') ? units.substr(0, units.size() - 1) : units;
}

std::string epochs_in_words(std::int64_t done, std::int64_t planned) {
  return done > planned ? fmt::format("{} epochs (/train/epochs is {})", done, planned)
                        : fmt::format("{} of {} epochs", done, planned);
}

std::string human_loss(double loss) {
  constexpr double kReadable = 1e6;
  return std::abs(loss) < kReadable ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string shown_path(const std::string& path, const std::string& folder) {
  const std::string relative = std::filesystem::path(path).lexically_relative(folder).string();
  return relative.empty() || relative.starts_with("..") ? path : relative;
}

}  // namespace ddprun::training
