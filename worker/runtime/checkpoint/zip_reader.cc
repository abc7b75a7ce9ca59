#include "worker/runtime/checkpoint/zip_reader.h"

#include "worker/runtime/checkpoint/corrupt.h"
#include "worker/runtime/checkpoint/zip_format.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

using Bytes = std::span<const std::byte>;

/// The caller has checked that `count` bytes are there.
std::uint64_t little_endian(Bytes bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

std::uint16_t u16(Bytes bytes, std::size_t offset) {
  return static_cast<std::uint16_t>(little_endian(bytes, offset, 2));
}
std::uint32_t u32(Bytes bytes, std::size_t offset) {
  return static_cast<std::uint32_t>(little_endian(bytes, offset, 4));
}
std::uint64_t u64(Bytes bytes, std::size_t offset) { return little_endian(bytes, offset, 8); }

/// The part of `archive` that begins at `offset` and has at least `size` bytes, or nothing.
Bytes at(Bytes archive, std::uint64_t offset, std::uint64_t size) {
  if (offset > archive.size() || archive.size() - offset < size) return {};
  return archive.subspan(static_cast<std::size_t>(offset));
}

/// The zip64 extra field's next 8-byte value, where the 32-bit one says "look there".
class Extra64 {
 public:
  explicit Extra64(Bytes extra) {
    while (extra.size() >= 4) {
      const std::size_t size = u16(extra, 2);
      if (extra.size() - 4 < size) return;
      if (u16(extra, 0) == zip::kExtra64) {
        values_ = extra.subspan(4, size);
        return;
      }
      extra = extra.subspan(4 + size);
    }
  }
  std::uint64_t widen(std::uint32_t value) {
    if (value != zip::kMax32 || values_.size() < 8) return value;
    const std::uint64_t wide = u64(values_, 0);
    values_ = values_.subspan(8);
    return wide;
  }

 private:
  Bytes values_;
};

}  // namespace

Result<ZipReader> ZipReader::open(Bytes archive) {
  ZipReader reader(archive);
  const Result<Directory> directory = reader.find_directory();
  if (!directory) return directory.error();
  if (Result<void> done = reader.read_directory(*directory); !done) return done.error();
  return reader;
}

Result<ZipReader::Directory> ZipReader::find_directory() const {
  const Error missing = corrupt(fmt::format(
      "it is truncated or not a .pt file: its {} bytes do not end with a zip directory", archive_.size()));
  if (archive_.size() < zip::kEndSize) return missing;
  // torch.save writes no archive comment: the end record is the last thing in the file.
  const std::size_t end = archive_.size() - zip::kEndSize;
  if (u32(archive_, end) != zip::kEndSignature) return missing;
  Directory directory{u32(archive_, end + 16), u16(archive_, end + 10)};
  if (end >= zip::kLocator64Size && u32(archive_, end - zip::kLocator64Size) == zip::kLocator64Signature) {
    const std::uint64_t offset = u64(archive_, end - zip::kLocator64Size + 8);
    const Bytes end64 = at(archive_, offset, zip::kEnd64Size);
    if (end64.empty() || u32(end64, 0) != zip::kEnd64Signature) return missing;
    directory = {u64(end64, 48), u64(end64, 32)};
  }
  return directory;
}

Result<void> ZipReader::read_directory(const Directory& directory) {
  std::uint64_t offset = directory.start;
  std::uint64_t data_bytes = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const Bytes entry = at(archive_, offset, zip::kCentralSize);
    if (entry.empty() || u32(entry, 0) != zip::kCentralSignature) {
      return corrupt(
          fmt::format("its zip directory is damaged: entry {} of {} is missing", i + 1, directory.count));
    }
    const std::size_t name_size = u16(entry, 28);
    const std::size_t extra_size = u16(entry, 30);
    const std::uint64_t total = zip::kCentralSize + name_size + extra_size + u16(entry, 32);
    if (entry.size() < total)
      return corrupt("its zip directory is damaged: it ends in the middle of an entry");
    const Bytes name_bytes = entry.subspan(zip::kCentralSize, name_size);
    std::string name(reinterpret_cast<const char*>(name_bytes.data()), name_bytes.size());
    if (u16(entry, 10) != 0)
      return corrupt(fmt::format("record {} is compressed; torch.save does not do that", name));
    Extra64 extra(entry.subspan(zip::kCentralSize + name_size, extra_size));
    Record record;
    record.crc = u32(entry, 16);
    record.size = extra.widen(u32(entry, 24));
    const std::uint64_t packed = u32(entry, 20) == zip::kMax32 ? extra.widen(zip::kMax32) : u32(entry, 20);
    record.offset = extra.widen(u32(entry, 42));
    if (packed != record.size) return corrupt(fmt::format("record {} has two different sizes", name));
    // Two names for the same bytes would cost a reader more memory than the file has.
    data_bytes += std::min<std::uint64_t>(record.size, archive_.size() + 1);
    if (data_bytes > archive_.size()) {
      return corrupt(fmt::format("its first {} records have {} bytes together, the file {}", i + 1,
                                 data_bytes, archive_.size()));
    }
    const std::size_t slash = name.find('/');
    if (slash != std::string::npos) name.erase(0, slash + 1);
    records_[name] = record;
    offset += total;
  }
  return ok();
}

Result<Bytes> ZipReader::read(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) return corrupt(fmt::format("record {} is missing", name));
  const Record& record = found->second;
  const Bytes header = at(archive_, record.offset, zip::kLocalSize);
  if (header.empty() || u32(header, 0) != zip::kLocalSignature) {
    return corrupt(fmt::format("record {} is not where the zip directory says", name));
  }
  const std::size_t skip = zip::kLocalSize + u16(header, 26) + u16(header, 28);
  if (header.size() < skip || header.size() - skip < record.size) {
    return corrupt(fmt::format("record {} is longer than the file", name));
  }
  const Bytes data = header.subspan(skip, static_cast<std::size_t>(record.size));
  if (zip::crc32(data) != record.crc)
    return corrupt(
        fmt::format("record {} is damaged: its checksum does not match (nor does any of a file that was "
                    "written under torch.serialization.set_crc32_options(False): save it without)",
                    name));
  return data;
}

}  // namespace ddprun::runtime
