#include "worker/runtime/rpc/failure.h"

#include "worker/runtime/rpc/thrown.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

namespace ddprun::runtime {
namespace {

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// What the agent of the other side says of itself, not of a function.
std::string without_node(const std::string& text) {
  if (!text.starts_with("Error on Node ")) return text;
  const std::size_t end = text.find(": ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

/// "… timeout (1500 ms) …": of a reference, the time of the call that was to make it.
std::optional<std::chrono::milliseconds> time_in(std::string_view text) {
  const std::size_t end = text.find(" ms)");
  if (end == std::string_view::npos) return {};
  const std::size_t begin = text.rfind('(', end);
  std::int64_t number = 0;
  if (begin == std::string_view::npos ||
      std::from_chars(text.data() + begin + 1, text.data() + end, number).ec != std::errc())
    return {};
  return std::chrono::milliseconds(number);
}

}  // namespace

bool is_lost_connection(std::string_view raw) {
  return contains(raw, "(this error originated at tensorpipe/") || raw.starts_with("eof");
}

bool is_timeout(std::string_view raw) { return contains(raw, "RPC ran for more than set timeout"); }

bool is_late_rank(std::string_view raw) { return contains(raw, "imeout") || contains(raw, "imed out"); }

bool is_shared_name(std::string_view raw) { return contains(raw, " is not unique"); }

std::exception_ptr exception_for(const FailedCall& call, std::string_view raw) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    return std::make_exception_ptr(
        Exception(code, fmt::format("rpc: {} on worker '{}': {}", call.what, call.to, why)));
  };
  if (const auto thrown = read_thrown(without_node(std::string(raw)))) return exception_of(*thrown);
  const std::string text = without_stack(raw);
  if (is_timeout(text))
    return failed(ErrorCode::kTimeout,
                  fmt::format("no answer within {:.3g} s; it may still be at work: name a longer time in To",
                              std::chrono::duration<double>(time_in(text).value_or(call.timeout)).count()));
  if (contains(text, "Cannot find matching operator"))
    return failed(ErrorCode::kNotFound,
                  "it has no such operator, or one with other arguments; register it there before init_rpc");
  if (raw.starts_with("Error on Node ") && is_lost_connection(raw))
    return failed(
        ErrorCode::kPeerLost,
        fmt::format("a worker that it called is gone ({}); that one's last words, or the launcher's "
                    "report, say which and why",
                    without_node(text)));
  if (raw.starts_with("Error on Node ")) return exception_of({call.to, "c10::Error", without_node(text)});
  if (is_lost_connection(raw))
    return failed(
        ErrorCode::kPeerLost,
        fmt::format("the worker is gone ({}); its own last words, or the launcher's report, say why", text));
  return std::make_exception_ptr(rpc::RemoteError(
      call.to, "unknown", fmt::format("rpc: {} on worker '{}': {}", call.what, call.to, without_stack(raw))));
}

}  // namespace ddprun::runtime
