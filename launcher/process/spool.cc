#include "launcher/process/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ddprun::launcher {
namespace {

UniqueFd open_unlinked(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  std::string path = directory + "/ddprun-console-XXXXXX";
  fd.reset(::mkostemp(path.data(), O_CLOEXEC));
  if (fd) ::unlink(path.c_str());
  return fd;
}

}  // namespace

std::size_t Spool::push(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    if (!files_.empty() && files_.back().fd) {
      File& file = files_.back();
      const ssize_t written =
          ::pwrite(file.fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(file.end));
      if (written > 0) {
        done += static_cast<std::size_t>(written);
        file.end += static_cast<std::uint64_t>(written);
        size_ += static_cast<std::uint64_t>(written);
        continue;
      }
    }
    if (next_directory_ == directories_.size()) break;
    files_.push_back({open_unlinked(directories_[next_directory_++])});
  }
  return done;
}

std::string Spool::pop(std::size_t limit) {
  while (!files_.empty() && files_.front().begin == files_.front().end) files_.pop_front();
  if (files_.empty()) {
    next_directory_ = 0;
    return {};
  }
  File& file = files_.front();
  std::string bytes(std::min<std::uint64_t>(limit, file.end - file.begin), '\0');
  const ssize_t count = ::pread(file.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(file.begin));
  if (count <= 0) {
    size_ -= file.end - file.begin;
    files_.pop_front();
    return {};
  }
  bytes.resize(static_cast<std::size_t>(count));
  file.begin += bytes.size();
  size_ -= bytes.size();
  if (size_ == 0) clear();
  return bytes;
}

void Spool::clear() {
  files_.clear();
  size_ = 0;
  next_directory_ = 0;
}

}  // namespace ddprun::launcher
