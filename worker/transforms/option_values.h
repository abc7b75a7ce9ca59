#pragma once

#include "worker/transforms/draws.h"
#include <ddprun/trainer/options.h>

#include <optional>
#include <string>

namespace ddprun::transforms {

/// What transforms read from their options. Each throws Exception kConfig with the place and the value.

[[noreturn]] void refuse(const Options& options, const std::string& key, const std::string& why);

/// "size" (a square) or "height" and "width".
Size read_size(const Options& options);
double read_probability(const Options& options, const std::string& key, double fallback);
std::int64_t read_integer(const Options& options, const std::string& key, std::int64_t fallback,
                          std::int64_t least, std::int64_t most);
/// [from, to] with least ≤ from ≤ to ≤ most.
Range read_range(const Options& options, const std::string& key, Range fallback, Range bounds);
/// Every key that nobody has read is refused, with the ones there are.
void refuse_unread(const Options& options);

}  // namespace ddprun::transforms
