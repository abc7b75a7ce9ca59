#pragma once

#include "launcher/watch/sample.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::watch {

/// What a node tells of its ranks: one line, in ASCII, of at most so many bytes. What tells least is left out first,
/// old collectives and the ends of lines, then the last ranks, which are counted. Empty: not even that fits. Pure.
std::string to_text(const JobSample& sample, std::size_t most_bytes);

/// What to_text() has made elsewhere, made printable, with the times of collectives counted from `taken_ns`, which is
/// 0. Nullopt: it is something else. Pure.
std::optional<JobSample> parse_sample(std::string_view text);

}  // namespace ddprun::launcher::watch
