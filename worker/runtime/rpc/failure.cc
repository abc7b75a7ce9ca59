#include "worker/runtime/rpc/failure.h"

#include "rendezvous/base/error_code.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <typeinfo>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kWorkerPrefix = "worker '";
constexpr std::string_view kWorkerSuffix = "': ";
constexpr std::string_view kExceptionOfOurs = "ddprun::Exception/";

constexpr std::array kCodes{ErrorCode::kUsage,         ErrorCode::kConfig,      ErrorCode::kNotFound,
                            ErrorCode::kCannotExecute, ErrorCode::kUnavailable, ErrorCode::kTimeout,
                            ErrorCode::kPeerLost,      ErrorCode::kCorrupt,     ErrorCode::kOs,
                            ErrorCode::kInternal};

template <class E>
std::exception_ptr make_standard(const std::string& text) {
  return std::make_exception_ptr(E(text));
}

template <class E>
std::exception_ptr make_torch(const std::string& text) {
  return std::make_exception_ptr(E(text, nullptr));
}

struct KnownClass {
  std::string_view name;
  std::exception_ptr (*make)(const std::string& text);
};

constexpr std::array kKnownClasses{
    KnownClass{"std::runtime_error", make_standard<std::runtime_error>},
    KnownClass{"std::range_error", make_standard<std::range_error>},
    KnownClass{"std::overflow_error", make_standard<std::overflow_error>},
    KnownClass{"std::underflow_error", make_standard<std::underflow_error>},
    KnownClass{"std::logic_error", make_standard<std::logic_error>},
    KnownClass{"std::invalid_argument", make_standard<std::invalid_argument>},
    KnownClass{"std::out_of_range", make_standard<std::out_of_range>},
    KnownClass{"std::domain_error", make_standard<std::domain_error>},
    KnownClass{"std::length_error", make_standard<std::length_error>},
    KnownClass{"c10::Error", make_torch<c10::Error>},
    KnownClass{"c10::IndexError", make_torch<c10::IndexError>},
    KnownClass{"c10::ValueError", make_torch<c10::ValueError>},
    KnownClass{"c10::TypeError", make_torch<c10::TypeError>},
    KnownClass{"c10::NotImplementedError", make_torch<c10::NotImplementedError>},
    KnownClass{"c10::OutOfMemoryError", make_torch<c10::OutOfMemoryError>},
};

std::string type_name(const std::exception& error) {
  const char* const mangled = typeid(error).name();
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
  return readable ? readable.get() : mangled;
}

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::exception_ptr rethrown(const Thrown& thrown) {
  const std::string text = fmt::format("worker '{}': {}", thrown.worker, thrown.text);
  if (thrown.type.starts_with(kExceptionOfOurs)) {
    for (const ErrorCode code : kCodes) {
      if (thrown.type.substr(kExceptionOfOurs.size()) == to_string(code))
        return std::make_exception_ptr(Exception(code, text));
    }
  }
  for (const KnownClass& known : kKnownClasses) {
    if (thrown.type == known.name) return known.make(text);
  }
  return std::make_exception_ptr(
      rpc::RemoteError(thrown.worker, thrown.type,
                       fmt::format("worker '{}': {}: {}", thrown.worker, thrown.type, thrown.text)));
}

/// What the agent of the other side says of itself, not of a function.
std::string without_node(const std::string& text) {
  if (!text.starts_with("Error on Node ")) return text;
  const std::size_t end = text.find(": ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

bool is_lost_connection(std::string_view raw) {
  return contains(raw, "tensorpipe/") || contains(raw, "ECONN") || contains(raw, "EPIPE") ||
         raw.starts_with("eof");
}

std::string without_stack(std::string_view text) {
  for (const std::string_view end :
       {"\nException raised from ", " (this error originated at ", "\nC++ CapturedTraceback"})
    text = text.substr(0, text.find(end));
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return std::string(text);
}

std::string write_thrown(const Thrown& thrown) {
  return fmt::format("{}{}{}{}: {}", kWorkerPrefix, thrown.worker, kWorkerSuffix, thrown.type, thrown.text);
}

std::optional<Thrown> read_thrown(std::string_view raw) {
  if (!raw.starts_with(kWorkerPrefix)) return {};
  raw.remove_prefix(kWorkerPrefix.size());
  const std::size_t name_end = raw.find(kWorkerSuffix);
  if (name_end == std::string_view::npos) return {};
  const std::string_view rest = raw.substr(name_end + kWorkerSuffix.size());
  const std::size_t type_end = rest.find(": ");
  if (type_end == std::string_view::npos) return {};
  return Thrown{.worker = std::string(raw.substr(0, name_end)),
                .type = std::string(rest.substr(0, type_end)),
                .text = std::string(rest.substr(type_end + 2))};
}

Thrown describe_thrown(const std::string& worker, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Exception& known) {
    return {worker, fmt::format("{}{}", kExceptionOfOurs, to_string(known.code())), known.what()};
  } catch (const c10::Error& known) {
    return {worker, type_name(known), known.what_without_backtrace()};
  } catch (const rpc::RemoteError& known) {
    if (const auto earlier = read_thrown(known.what())) return *earlier;
    return {known.worker(), known.type(), known.what()};
  } catch (const std::exception& known) {
    return {worker, type_name(known), without_stack(known.what())};
  } catch (...) {
    return {worker, "an object", "it is no std::exception"};
  }
}

std::exception_ptr exception_for(const FailedCall& call, std::string_view raw) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    return std::make_exception_ptr(
        Exception(code, fmt::format("rpc: {} on worker '{}': {}", call.what, call.to, why)));
  };
  if (const auto thrown = read_thrown(raw)) return rethrown(*thrown);
  const std::string text = without_stack(raw);
  if (contains(text, "RPC ran for more than set timeout"))
    return failed(ErrorCode::kTimeout,
                  fmt::format("no answer within {:.3g} s; it may still be at work: name a longer time in To",
                              std::chrono::duration<double>(call.timeout).count()));
  if (contains(text, "Cannot find matching operator"))
    return failed(ErrorCode::kNotFound,
                  "it has no such operator, or one with other arguments; register it there before init_rpc");
  if (raw.starts_with("Error on Node ")) return rethrown({call.to, "c10::Error", without_node(text)});
  if (is_lost_connection(raw))
    return failed(
        ErrorCode::kPeerLost,
        fmt::format("the worker is gone ({}); its own last words, or the launcher's report, say why", text));
  return std::make_exception_ptr(rpc::RemoteError(
      call.to, "unknown", fmt::format("rpc: {} on worker '{}': {}", call.what, call.to, without_stack(raw))));
}

}  // namespace ddprun::runtime
