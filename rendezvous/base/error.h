#pragma once

#include "rendezvous/base/error_code.h"

#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

/// An expected failure. The message has the form *what failed · on which object · why, with numbers · what to do*:
/// lower case start, no trailing full stop, no file:line.
class Error {
 public:
  /// "no error": what boost::system::result answers when asked for the error of a success.
  Error() = default;
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] ErrorCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  /// The same failure with `context` in front: `error.with("rank 3")` says "rank 3: …". Used on the way up.
  [[nodiscard]] Error with(std::string_view context) const;

 private:
  ErrorCode code_ = ErrorCode::kInternal;
  std::string message_;
};

/// What the caller wrote cannot be done: a kUsage error.
inline Error usage_error(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

/// "what: strerror(errno_value)" as a kOs error; `what` names the call and its object.
Error os_error(std::string_view what, int errno_value);

}  // namespace ddprun
