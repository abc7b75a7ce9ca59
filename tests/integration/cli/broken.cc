// A worker that ends in one of the ways that a report must be able to tell apart.
//
//   broken throw | segv | abort | bus | shm | eat
//   broken hold-shm         takes all of /dev/shm, and sleeps

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Touches pages of a file in `directory` that is `length` long as far as its name goes and has nothing behind
// it.
void touch_mapped(const char* directory, std::size_t length, bool reserve) {
  std::string path = std::string(directory) + "/broken-XXXXXX";
  const int fd = mkstemp(path.data());
  unlink(path.c_str());
  if (reserve && ftruncate(fd, static_cast<off_t>(length)) != 0) _exit(9);
  void* const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) _exit(9);
  std::memset(memory, 1, length);
}

// Fills /dev/shm as another job would, and stays.
void hold_shared_memory() {
  const int fd = open("/dev/shm/held", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::vector<char> page(4096, 'x');
  while (write(fd, page.data(), page.size()) > 0) {
  }
  pause();
}

// Asks for memory and uses it until the kernel says no.
void eat_memory() {
  constexpr std::size_t kBite = std::size_t{16} << 20;
  for (int bite = 0; bite < 256; ++bite) {
    void* const memory = std::malloc(kBite);
    if (memory == nullptr) _exit(9);
    std::memset(memory, 1, kBite);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "throw") throw std::runtime_error("no such layer: conv9");
  if (how == "segv") raise(SIGSEGV);
  if (how == "abort") std::abort();
  if (how == "bus") touch_mapped("/tmp", 4096, false);
  if (how == "shm") touch_mapped("/dev/shm", std::size_t{8} << 20, true);
  if (how == "eat") eat_memory();
  if (how == "hold-shm") hold_shared_memory();
  return how.empty() ? 0 : 8;
}
