#pragma once

#include "rendezvous/base/result.h"
#include "worker/runtime/checkpoint/atomic_file.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// Writes the container of a `.pt` file: a zip archive of stored records whose data begin at multiples of 64,
/// as torch.save writes it and mmap likes it. Sizes beyond 4 GiB use zip64.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  /// Appends one record. Names are given once each.
  Result<void> add(const std::string& name, std::span<const std::byte> data);
  /// Writes the directory; the archive is complete.
  Result<void> finish();

 private:
  struct Record {
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
  };
  AtomicFile& file_;
  std::vector<Record> records_;
};

}  // namespace ddprun::runtime
