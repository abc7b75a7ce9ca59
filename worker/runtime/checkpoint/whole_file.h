#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ddprun::runtime {

/// A file's bytes, read into memory. Of a file that is mapped, a page that the disk cannot give, that somebody has cut
/// off or whose file a server has no more is the end of the process (SIGBUS).
class WholeFile {
 public:
  /// What has become shorter meanwhile is shorter.
  /// Errors  kNotFound; kCorrupt: the disk cannot give it; kConfig: it is no regular file; kOs; all name the file.
  static Result<WholeFile> read(const std::string& path);

  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  WholeFile(std::unique_ptr<std::byte[]> bytes, std::size_t size) : bytes_(std::move(bytes)), size_(size) {}

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

}  // namespace ddprun::runtime
