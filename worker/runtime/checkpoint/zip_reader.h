#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace ddprun::runtime {

/// The records of a zip archive in memory, stored without compression as torch.save does. Believes nothing:
/// every offset, size and checksum is held against the bytes that are there.
///
/// Lifetime  the bytes outlive the reader and the spans it returns.
class ZipReader {
 public:
  /// Errors  kCorrupt, saying what is wrong where; the caller adds the file's name.
  static Result<ZipReader> open(std::span<const std::byte> archive);

  /// A record's bytes, with its checksum verified. `name` is without the archive's folder ("data.pkl").
  [[nodiscard]] Result<std::span<const std::byte>> read(const std::string& name) const;

 private:
  struct Record {
    std::uint32_t crc = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;  // of the local header
  };
  struct Directory {
    std::uint64_t start = 0;
    std::uint64_t count = 0;
  };
  explicit ZipReader(std::span<const std::byte> archive) : archive_(archive) {}
  [[nodiscard]] Result<Directory> find_directory() const;
  Result<void> read_directory(const Directory& directory);

  std::span<const std::byte> archive_;
  std::map<std::string, Record> records_;
};

}  // namespace ddprun::runtime
