#include "launcher/why/look/process_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ddprun::launcher::why {
namespace {

bool read_at(int fd, std::uint64_t address, void* into, std::size_t size) {
  return ::pread(fd, into, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

}  // namespace

ProcessMemory::ProcessMemory(pid_t pid)
    : file_(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_) return;
  problem_ = fmt::format("its memory may not be read: {}", std::strerror(errno));
  if (errno == EACCES || errno == EPERM) problem_ += "; run ddprun why as root or with CAP_SYS_PTRACE";
}

ReadMemory ProcessMemory::reader() const {
  return [fd = file_.get()](std::uint64_t address, void* into, std::size_t size) {
    return read_at(fd, address, into, size);
  };
}

std::string ProcessMemory::text_at(std::uint64_t address) const {
  constexpr std::size_t kPage = 4096;
  std::array<char, kPage> page{};
  // To the end of the page: what lies behind it need not be there.
  const std::size_t size = kPage - address % kPage;
  if (!read_at(file_.get(), address, page.data(), size)) return {};
  std::string text(page.data(), ::strnlen(page.data(), size));
  if (text.size() == size && read_at(file_.get(), address + size, page.data(), kPage))
    text.append(page.data(), ::strnlen(page.data(), kPage - size));
  return text;
}

}  // namespace ddprun::launcher::why
