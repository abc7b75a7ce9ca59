#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <string>

namespace ddprun {

/// A regular file, open for reading, and its size in bytes at that moment.
struct OpenFile {
  UniqueFd fd;
  std::size_t size = 0;
};

/// Never waits for a FIFO's writer. kNotFound when nothing is there, kConfig when it is no regular file, kOs
/// otherwise; the message names `path`.
Result<OpenFile> open_regular_file(const std::string& path);

/// The last `most` bytes of a file that a worker may have put there: whatever it is, reading it takes neither
/// for ever nor all memory. Errors as above; a symbolic link is refused, too (kOs).
Result<std::string> load_tail_of_foreign_file(const std::string& path, std::size_t most);

/// All of it; kConfig when that is more than `most` bytes.
Result<std::string> load_foreign_file(const std::string& path, std::size_t most);

}  // namespace ddprun
