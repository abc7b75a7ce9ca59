#include "rendezvous/base/read_text.h"

#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace ddprun {

std::optional<std::string> try_read_text(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count > 0) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      return text;
    } else if (errno != EINTR) {
      return std::nullopt;
    }
  }
}

std::string read_text(const std::string& path) { return try_read_text(path).value_or(""); }

}  // namespace ddprun
