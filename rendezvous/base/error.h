#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

/// What went wrong, coarsely: it decides the exit code (exit_codes.h), the message says the rest.
enum class ErrorCode {
  kUsage,        ///< the command line is wrong
  kConfig,       ///< a configuration file or value is wrong
  kNotFound,     ///< a file, program or key is not there
  kUnavailable,  ///< a peer, store or port cannot be had
  kTimeout,      ///< a deadline passed
  kPeerLost,     ///< a member of the world left
  kCorrupt,      ///< bytes that cannot be what they claim to be
  kOs,           ///< a system call failed
  kInternal,     ///< a bug of ours
};

std::string_view to_string(ErrorCode code);

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

/// "what: strerror(errno_value)" as a kOs error; `what` names the call and its object.
Error os_error(std::string_view what, int errno_value);

}  // namespace ddprun
