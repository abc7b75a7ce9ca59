#include "worker/transforms/option_values.h"

#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ddprun::transforms {
namespace {

constexpr std::int64_t kLongestSide = 16384;

std::int64_t read_side(const Options& options, const std::string& key) {
  const std::int64_t side = options.integer(key);
  if (side < 1 || side > kLongestSide)
    refuse(options, key, fmt::format("expected pixels in 1 … {}, got {}", kLongestSide, side));
  return side;
}

}  // namespace

void refuse(const Options& options, const std::string& key, const std::string& why) {
  throw Exception(ErrorCode::kConfig, fmt::format("{}/{}: {}", options.pointer(), key, why));
}

Size read_size(const Options& options) {
  const bool has_both = options.has("height") && options.has("width");
  if (options.has("size") == has_both || options.has("height") != options.has("width")) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: expected either \"size\", or \"height\" and \"width\", in pixels",
                                options.pointer()));
  }
  if (has_both) return {read_side(options, "height"), read_side(options, "width")};
  const std::int64_t side = read_side(options, "size");
  return {side, side};
}

double read_probability(const Options& options, const std::string& key, double fallback) {
  const double p = options.number(key, fallback);
  if (!(p >= 0 && p <= 1)) refuse(options, key, fmt::format("expected a probability in 0 … 1, got {}", p));
  return p;
}

std::int64_t read_integer(const Options& options, const std::string& key, std::int64_t fallback,
                          std::int64_t least, std::int64_t most) {
  const std::int64_t value = options.integer(key, fallback);
  if (value < least || value > most)
    refuse(options, key, fmt::format("expected integer in {} … {}, got {}", least, most, value));
  return value;
}

Range read_range(const Options& options, const std::string& key, Range fallback, Range bounds) {
  if (!options.has(key)) {
    static_cast<void>(options.number(key, 0));  // the key is known
    return fallback;
  }
  const std::vector<double> values = options.numbers(key);
  const bool is_range = values.size() == 2 && static_cast<double>(bounds.from) <= values[0] &&
                        values[0] <= values[1] && values[1] <= static_cast<double>(bounds.to);
  if (!is_range) {
    refuse(options, key,
           fmt::format("expected [from, to] with {:g} ≤ from ≤ to ≤ {:g}, got [{}]", bounds.from, bounds.to,
                       fmt::join(values, ", ")));
  }
  return {static_cast<float>(values[0]), static_cast<float>(values[1])};
}

void refuse_unread(const Options& options) {
  const std::vector<std::string> keys = options.unread();
  if (keys.empty()) return;
  refuse(options, keys.front(), fmt::format("unknown key of \"{}\"; remove it", options.text("type")));
}

}  // namespace ddprun::transforms
