#include "launcher/output/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun::launcher {

std::size_t Spool::push(std::string_view bytes) {
  if (!file_) file_.reset(::memfd_create("ddprun-console", MFD_CLOEXEC));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(end_));
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
    end_ += static_cast<std::uint64_t>(written);
  }
  return done;
}

std::string Spool::pop(std::size_t limit) {
  std::string bytes(std::min<std::uint64_t>(limit, size()), '\0');
  const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(begin_));
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  begin_ += bytes.size();
  if (size() == 0 || bytes.empty()) {
    clear();
  } else {
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(begin_));
  }
  return bytes;
}

void Spool::clear() {
  file_.reset();
  begin_ = end_ = 0;
}

}  // namespace ddprun::launcher
