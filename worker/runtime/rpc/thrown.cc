#include "worker/runtime/rpc/thrown.h"

#include "rendezvous/base/error_code.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <any>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <typeinfo>
#include <utility>
#include <variant>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kWorkerPrefix = "worker '";
constexpr std::string_view kWorkerSuffix = "': ";
constexpr std::string_view kExceptionOfOurs = "ddprun::Exception/";
constexpr std::string_view kSystemError = "std::system_error";
constexpr std::string_view kFilesystemError = "std::filesystem::filesystem_error";

constexpr std::array kCodes{ErrorCode::kUsage,         ErrorCode::kConfig,      ErrorCode::kNotFound,
                            ErrorCode::kCannotExecute, ErrorCode::kUnavailable, ErrorCode::kTimeout,
                            ErrorCode::kPeerLost,      ErrorCode::kCorrupt,     ErrorCode::kOs,
                            ErrorCode::kInternal};

/// Says as which class it travels on.
struct Travelled {
  std::string type;
};

/// A class of the standard library that has no text of its own, or makes it, with the text that travelled.
template <class E>
class WithText : public E, public Travelled {
 public:
  template <class... A>
  WithText(std::string travels_as, const std::string& text, A... arguments)
      : E(arguments...), Travelled{std::move(travels_as)}, text_(std::make_shared<const std::string>(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_->c_str(); }

 private:
  std::shared_ptr<const std::string> text_;
};

template <class E>
std::exception_ptr make_standard(const std::string& text) {
  return std::make_exception_ptr(E(text));
}

template <class E>
std::exception_ptr make_torch(const std::string& text) {
  return std::make_exception_ptr(E(text, nullptr));
}

std::string readable_name(const std::type_info& type) {
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), std::free);
  return readable ? readable.get() : type.name();
}

template <class E>
std::exception_ptr make_textless(const std::string& text) {
  return std::make_exception_ptr(WithText<E>(readable_name(typeid(E)), text));
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
    KnownClass{"std::bad_alloc", make_textless<std::bad_alloc>},
    KnownClass{"std::bad_array_new_length", make_textless<std::bad_array_new_length>},
    KnownClass{"std::bad_cast", make_textless<std::bad_cast>},
    KnownClass{"std::bad_any_cast", make_textless<std::bad_any_cast>},
    KnownClass{"std::bad_optional_access", make_textless<std::bad_optional_access>},
    KnownClass{"std::bad_variant_access", make_textless<std::bad_variant_access>},
    KnownClass{"std::bad_function_call", make_textless<std::bad_function_call>},
    KnownClass{"std::bad_weak_ptr", make_textless<std::bad_weak_ptr>},
    KnownClass{"c10::Error", make_torch<c10::Error>},
    KnownClass{"c10::IndexError", make_torch<c10::IndexError>},
    KnownClass{"c10::ValueError", make_torch<c10::ValueError>},
    KnownClass{"c10::TypeError", make_torch<c10::TypeError>},
    KnownClass{"c10::NotImplementedError", make_torch<c10::NotImplementedError>},
    KnownClass{"c10::OutOfMemoryError", make_torch<c10::OutOfMemoryError>},
    KnownClass{"c10::LinAlgError", make_torch<c10::LinAlgError>},
    KnownClass{"c10::DistError", make_torch<c10::DistError>},
    KnownClass{"c10::DistBackendError", make_torch<c10::DistBackendError>},
    KnownClass{"c10::DistNetworkError", make_torch<c10::DistNetworkError>},
    KnownClass{"c10::DistStoreError", make_torch<c10::DistStoreError>},
};

/// Its class; of an error of the system, where both sides know the numbers, with it: "std::system_error/generic/2".
std::string type_name(const std::exception& error) {
  if (const auto* const travelled = dynamic_cast<const Travelled*>(&error)) return travelled->type;
  const std::type_info& type = typeid(error);
  if (type != typeid(std::system_error) && type != typeid(std::filesystem::filesystem_error))
    return readable_name(type);
  const std::error_code& code = dynamic_cast<const std::system_error&>(error).code();
  return fmt::format("{}/{}/{}", type == typeid(std::system_error) ? kSystemError : kFilesystemError,
                     code.category().name(), code.value());
}

std::optional<std::error_code> code_of(std::string_view category_and_number) {
  const std::size_t slash = category_and_number.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view category = category_and_number.substr(0, slash);
  const std::string_view number = category_and_number.substr(slash + 1);
  int value = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc()) return {};
  if (category == "generic") return std::error_code(value, std::generic_category());
  if (category == "system") return std::error_code(value, std::system_category());
  return {};
}

/// The error of the system that `type` names with its number; null where it does not.
std::exception_ptr system_error_of(const std::string& type, const std::string& text) {
  for (const std::string_view name : {kSystemError, kFilesystemError}) {
    if (!type.starts_with(name) || type.size() <= name.size()) continue;
    const auto code = code_of(std::string_view(type).substr(name.size() + 1));
    if (!code) return nullptr;
    if (name == kSystemError) return std::make_exception_ptr(WithText<std::system_error>(type, text, *code));
    return std::make_exception_ptr(WithText<std::filesystem::filesystem_error>(type, text, "", *code));
  }
  return nullptr;
}

}  // namespace

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

std::exception_ptr exception_of(const Thrown& thrown) {
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
  if (auto known = system_error_of(thrown.type, text)) return known;
  return std::make_exception_ptr(
      rpc::RemoteError(thrown.worker, thrown.type,
                       fmt::format("worker '{}': {}: {}", thrown.worker, thrown.type, thrown.text)));
}

}  // namespace ddprun::runtime
