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

/// kNotFound when nothing is there, kConfig when it is no regular file, kOs otherwise; the message names
/// `path`.
Result<OpenFile> open_regular_file(const std::string& path);

}  // namespace ddprun
