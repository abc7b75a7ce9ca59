#pragma once

#include <string_view>

namespace ddprun::membership {

/// Whether `a` comes before `b` as a person counts: runs of digits compare as numbers, so node2 < node10.
/// Total: names that count alike ("n1", "n01") fall back to byte order.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace ddprun::membership
