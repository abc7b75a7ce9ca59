#pragma once

#include <exception>
#include <string>

namespace ddprun::runtime {

/// What `error` says, where it is an Error.
template <class Error>
std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.what();
  } catch (...) {
    return "another class";
  }
}

}  // namespace ddprun::runtime
