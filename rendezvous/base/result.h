#pragma once

#include "rendezvous/base/error.h"

#include <boost/system/result.hpp>
#include <boost/throw_exception.hpp>

#include <stdexcept>

namespace ddprun {

/// A value or the Error that prevented it: the return type of everything that can fail in operation.
///
///   Result<Listener> listener = Listener::open(port);
///   if (!listener) return listener.error().with("store");
///
/// `value()` on an error throws std::runtime_error with its message (tests use that); production code asks first.
template <class T>
class [[nodiscard]] Result : public boost::system::result<T, Error> {
 public:
  using boost::system::result<T, Error>::result;
};

/// Success without a value.
inline Result<void> ok() { return {}; }

/// Called by boost::system::result when value() is asked of an error.
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::runtime_error(error.message());
}

}  // namespace ddprun
