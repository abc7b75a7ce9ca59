#pragma once

#include "rendezvous/base/error_code.h"

#include <stdexcept>
#include <string>

namespace ddprun {

/// What the public API throws when something expected goes wrong: no peer, no GPU, parameters that differ
/// between ranks, a misused option. The message has the form *what failed · on which object · why, with
/// numbers · what to do*. Errors of libtorch itself pass through as c10::Error.
class Exception : public std::runtime_error {
 public:
  Exception(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace ddprun
