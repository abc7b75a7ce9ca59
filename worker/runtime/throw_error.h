#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/exception.h>

#include <utility>

namespace ddprun::runtime {

/// The border between Result inside and exceptions outside.
[[noreturn]] inline void throw_error(const Error& error) { throw Exception(error.code(), error.message()); }

/// The value of what went well.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw_error(result.error());
  return std::move(*result);
}

}  // namespace ddprun::runtime
