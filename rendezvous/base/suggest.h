#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, ASCII case
/// aside.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that `typed` was most likely meant to be, or nullopt when none is near: at most one edit in three
/// characters, and never more than three. The first of equally near names wins.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);

/// `; did you mean "epochs"?`, or nothing: the end of a sentence that refuses `typed`.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names);

}  // namespace ddprun
