#include "launcher/process/exec_failure.h"

#include "rendezvous/base/shell_quote.h"
#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";

// The interpreter of a script: the first word after "#!", its line end included when that is a carriage
// return.
std::string_view interpreter(std::string_view head) {
  if (!head.starts_with("#!")) return {};
  head.remove_prefix(2);
  head = head.substr(0, head.find('\n'));
  head.remove_prefix(std::min(head.find_first_not_of(" \t"), head.size()));
  return head.substr(0, head.find_first_of(" \t"));
}

Error missing_file(std::string_view path, std::string_view head) {
  const std::string_view wanted = interpreter(head);
  if (wanted.ends_with('\r')) {
    return Error(
        ErrorCode::kCannotExecute,
        fmt::format("cannot run {}: its first line ends in a carriage return (Windows line ends), so its "
                    "interpreter is not found; convert it with `sed -i 's/\\r$//' {}`",
                    path, shell_quote(path)));
  }
  if (!wanted.empty()) {
    return Error(
        ErrorCode::kCannotExecute,
        fmt::format("cannot run {}: its interpreter {} does not exist; install it or correct the first line",
                    path, wanted));
  }
  if (head.starts_with(kElfMagic)) {
    return Error(
        ErrorCode::kCannotExecute,
        fmt::format("cannot run {}: the dynamic loader it was linked for does not exist here; was it built "
                    "for another system?",
                    path));
  }
  return Error(ErrorCode::kNotFound, fmt::format("cannot run {}: no such file", path));
}

}  // namespace

Error explain_exec_failure(std::string_view path, int error_number, std::string_view head) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return missing_file(path, head);
    case ENOEXEC:
      return Error(ErrorCode::kCannotExecute,
                   fmt::format("cannot run {}: exec format error: {}", path,
                               head.starts_with(kElfMagic) ? "it is a program for another kind of machine"
                               : head.empty()              ? "the file is empty"
                                              : "it is neither a program nor a script with a #! line"));
    case EACCES:
    case EISDIR:
      return Error(
          ErrorCode::kCannotExecute,
          fmt::format("cannot run {}: permission denied; is it a file, executable (`chmod +x`) and on a file "
                      "system not mounted noexec?",
                      path));
    case E2BIG:
      return Error(ErrorCode::kCannotExecute,
                   fmt::format("cannot run {}: its arguments and environment are too long together", path));
    default:
      return Error(error_number == ENOMEM || error_number == EMFILE || error_number == ENFILE ||
                           error_number == EAGAIN || error_number == EIO
                       ? ErrorCode::kOs
                       : ErrorCode::kCannotExecute,
                   fmt::format("cannot run {}: {}", path, std::strerror(error_number)));
  }
}

std::string read_head(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return {};
  std::array<char, 256> buffer;
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  return count <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(count));
}

}  // namespace ddprun::launcher
