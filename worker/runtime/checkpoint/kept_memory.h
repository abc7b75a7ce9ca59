#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace ddprun::runtime {

/// What is put into kept memory begins at multiples of this, which is that of libtorch's own allocator.
constexpr std::size_t kKeptAlignment = 64;
constexpr std::size_t kept_size(std::size_t size) {
  return (size + kKeptAlignment - 1) / kKeptAlignment * kKeptAlignment;
}

/// A part of a file in the memory of this process.
class KeptMapping {
 public:
  KeptMapping() = default;
  explicit KeptMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  KeptMapping(KeptMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  KeptMapping& operator=(KeptMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~KeptMapping();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// A file of memory that the launcher keeps for this process and those that follow it.
class KeptMemory {
 public:
  /// Errors  kNotFound, kOs; kConfig: it is no such file, but another program's. They name the file.
  static Result<KeptMemory> open(const std::string& path);

  /// So many bytes from `start` on, a multiple of the page size, which are there afterwards, whether they were or not.
  /// Errors  kOs: there is no memory.
  [[nodiscard]] Result<KeptMapping> map(std::size_t start, std::size_t size) const;
  /// Gives back what lies behind so many bytes; it may stay mapped, and is not to be touched until it is mapped anew.
  void give_back_behind(std::size_t size) const;
  /// All that is there.
  /// Errors  kOs.
  [[nodiscard]] Result<KeptMapping> map_all() const;

 private:
  KeptMemory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace ddprun::runtime
