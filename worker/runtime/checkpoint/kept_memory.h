#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace ddprun::runtime {

/// What is put there begins at multiples of this, which is that of libtorch's own allocator.
constexpr std::size_t kKeptAlignment = 64;
constexpr std::size_t kept_size(std::size_t size) {
  return (size + kKeptAlignment - 1) / kKeptAlignment * kKeptAlignment;
}

/// A file of memory that the launcher keeps for this process and those that follow it (KeptMemory), mapped as a whole.
class KeptMemory {
 public:
  /// Errors  kNotFound, kOs; kConfig: it is no such file, but another program's. They name the file.
  static Result<KeptMemory> open(const std::string& path);
  KeptMemory(KeptMemory&& other) noexcept;
  KeptMemory& operator=(KeptMemory&& other) noexcept;
  ~KeptMemory();

  /// Makes it as large as `size`, if it is smaller; what is there stays, at another address.
  /// Errors  kOs: there is no memory; nothing has changed.
  Result<void> reserve(std::size_t size);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  KeptMemory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<void> map(std::size_t size);

  std::string path_;
  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace ddprun::runtime
