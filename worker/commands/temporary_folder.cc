#include "worker/commands/temporary_folder.h"

#include <ddprun/exception.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace ddprun::commands {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(const std::string& stem) {
  const char* const wanted = std::getenv("TMPDIR");
  path_ = fmt::format("{}/{}-XXXXXX", wanted != nullptr && *wanted != '\0' ? wanted : "/tmp", stem);
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Exception(ErrorCode::kOs,
                    fmt::format("cannot make a folder {}: {}; set TMPDIR to a place that can be written",
                                path_, std::strerror(errno)));
  }
}

std::string TemporaryFolder::remove() {
  std::error_code error;
  fs::remove_all(path_, error);
  return error ? fmt::format("{}: {}", path_, error.message()) : std::string();
}

}  // namespace ddprun::commands
