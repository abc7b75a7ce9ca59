#include "launcher/output/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun::launcher {
namespace {

std::uint64_t room_for_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Spool::kMostRoom;
  return std::clamp<std::uint64_t>(limit.rlim_cur, 1, Spool::kMostRoom);
}

}  // namespace

Spool::Spool() : room_(room_for_files()) {}

std::size_t Spool::push(std::string_view bytes) {
  if (!file_) file_.reset(::memfd_create("ddprun-console", MFD_CLOEXEC));
  std::size_t done = 0;
  while (done < bytes.size() && size() < room_) {
    const std::uint64_t piece =
        std::min<std::uint64_t>({bytes.size() - done, room_ - size(), until_end(end_)});
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data() + done, piece, static_cast<off_t>(offset(end_)));
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
    end_ += static_cast<std::uint64_t>(written);
  }
  return done;
}

std::string Spool::pop(std::size_t limit) {
  std::string bytes(std::min<std::uint64_t>({limit, size(), until_end(begin_)}), '\0');
  const auto at = static_cast<off_t>(offset(begin_));
  const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), at);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  begin_ += bytes.size();
  if (size() == 0 || bytes.empty()) {
    clear();
  } else {
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                static_cast<off_t>(bytes.size()));
  }
  return bytes;
}

void Spool::clear() {
  file_.reset();
  begin_ = end_ = 0;
}

}  // namespace ddprun::launcher
