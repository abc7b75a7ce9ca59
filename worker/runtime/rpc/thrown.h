#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::runtime {

/// An exception of a function, as it travels: "worker 'ps': std::out_of_range: no such row". A rank in Python reads it
/// as it is; read_thrown takes it apart.
struct Thrown {
  std::string worker;
  std::string type;
  std::string text;
};
std::string write_thrown(const Thrown& thrown);
std::optional<Thrown> read_thrown(std::string_view raw);

/// What was thrown on `worker`: its class's name, and what it says without a stack. What travelled already (the
/// exception of a call that the function made) stays as it was.
Thrown describe_thrown(const std::string& worker, const std::exception_ptr& error);

/// The exception that the caller gets: of the same class where it is one that is known here.
std::exception_ptr exception_of(const Thrown& thrown);

/// What is left of `text` without the stack of libtorch's and the place in TensorPipe's sources.
std::string without_stack(std::string_view text);

}  // namespace ddprun::runtime
