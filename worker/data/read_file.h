#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// The content of a file, inflated when it is gzip (known by its first two bytes, not by its name), all members of it.
///
/// Errors  kNotFound: no such file; kOs: it cannot be read; kCorrupt: damaged or truncated gzip, or more than
///         `limit` bytes. Each names the file.
Result<std::vector<std::uint8_t>> read_file(const std::string& path, std::size_t limit);

/// The same, but no more than the first `most` bytes of it: no file makes this take more memory than that and
/// its own size.
Result<std::vector<std::uint8_t>> read_start_of_file(const std::string& path, std::size_t most);

}  // namespace ddprun::data
