#include "launcher/cli/reply.h"

#include "launcher/text/text.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace ddprun::launcher {

int refuse(const Error& error) {
  print_all(STDERR_FILENO,
            fmt::format("ddprun: {}\n", ddprun::printable(error.message(), std::string::npos)));
  return to_exit_code(error.code());
}

int refuse_in_lines(std::string_view who, const Error& error) {
  std::string lines;
  for (const std::string_view line : split_lines(error.message())) lines += printable(line) + '\n';
  print_all(STDERR_FILENO, fmt::format("{}: {}", who, lines));
  return to_exit_code(error.code());
}

int answer(std::string_view text) {
  if (print_all(STDOUT_FILENO, text)) return exit_code::kOk;
  if (errno == EPIPE) return exit_code::kOs;
  const char* const why = errno == EBADF ? "it is closed" : std::strerror(errno);
  return refuse(Error(ErrorCode::kOs, fmt::format("cannot write to stdout: {}", why)));
}

}  // namespace ddprun::launcher
