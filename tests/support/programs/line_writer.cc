// Writes COUNT numbered lines of many lengths, cut into pieces that have nothing to do with lines, so that
// whoever passes them on has to put them together again.
//
//   line_writer COUNT [stderr]

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written <= 0) std::exit(1);
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const int count = std::atoi(argv[1]);
  const int fd = argc > 2 && std::strcmp(argv[2], "stderr") == 0 ? STDERR_FILENO : STDOUT_FILENO;
  const char* rank = std::getenv("RANK");
  std::string pending;
  for (int line = 0; line < count; ++line) {
    pending += std::string(rank == nullptr ? "0" : rank) + ":" + std::to_string(line) + ":" +
               std::string(static_cast<std::size_t>(line * 7 % 61), static_cast<char>('a' + line % 26)) +
               "\n";
    // Pieces of 1 to 8,000 bytes that end anywhere.
    const std::size_t piece = 1 + static_cast<std::size_t>(line * 131 % 8000);
    if (pending.size() >= piece) {
      write_all(fd, pending.data(), piece);
      pending.erase(0, piece);
    }
  }
  write_all(fd, pending.data(), pending.size());
}
