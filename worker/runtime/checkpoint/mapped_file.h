#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <span>
#include <string>

namespace ddprun::runtime {

/// A file's bytes, mapped read-only: of one that this host has made and can make anew. Others are read (whole_file.h).
class MappedFile {
 public:
  /// Errors  kNotFound, kOs; both name the file.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace ddprun::runtime
