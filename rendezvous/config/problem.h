#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::config {

/// Something in a job that cannot be accepted.
struct Problem {
  std::string pointer;  ///< JSON pointer of the value or key it is about; the value may be missing
  std::string message;  ///< "expected …, found …" and what to do
};

/// One step of a JSON pointer after another, unescaped; "" has none. A text that is not a pointer has no
/// meaning here.
std::vector<std::string> pointer_tokens(std::string_view pointer);

/// The pointer one step up; "" stays "".
std::string parent_pointer(std::string_view pointer);

}  // namespace ddprun::config
