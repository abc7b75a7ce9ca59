#pragma once

#include <ddprun/pt_value.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::runtime {

/// A bool, an int and a float without a fraction, which as keys of a Python dict are one where they are equal.
std::optional<std::int64_t> whole_number(const PtValue& value);

/// A text that two keys have in common where Python has them equal. None: equal to itself alone, as no number is, or
/// nothing that Python takes for a key. Made in time that grows with the size of the key, however deep its tuples are.
std::optional<std::string> key_text(const PtValue& key);

}  // namespace ddprun::runtime
