#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

namespace ddprun::runtime {

/// A call that failed: of what, on whom, and how long it could take.
struct FailedCall {
  std::string what;
  std::string to;
  std::chrono::milliseconds timeout{};
};

/// The exception that a caller gets for what libtorch's agent, or the other side, says.
std::exception_ptr exception_for(const FailedCall& call, std::string_view raw);

/// True for what TensorPipe says of a connection whose other end is gone.
bool is_lost_connection(std::string_view raw);

/// True for what libtorch's agent says of a call that took too long.
bool is_timeout(std::string_view raw);

/// True for what the store and gloo say of ranks that did not come in time.
bool is_late_rank(std::string_view raw);

/// True for what libtorch says of two workers with one name.
bool is_shared_name(std::string_view raw);

}  // namespace ddprun::runtime
