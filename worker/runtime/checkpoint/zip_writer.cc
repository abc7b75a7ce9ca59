#include "worker/runtime/checkpoint/zip_writer.h"

#include "worker/runtime/checkpoint/zip_format.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

/// Little-endian fields, one after the other.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return put(value, 2); }
  Fields& u32(std::uint64_t value) { return put(value, 4); }
  Fields& u64(std::uint64_t value) { return put(value, 8); }
  Fields& text(const std::string& value) {
    for (const char c : value) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Fields& fill(std::size_t count, char c) {
    bytes_.insert(bytes_.end(), count, static_cast<std::byte>(c));
    return *this;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  Fields& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  std::vector<std::byte> bytes_;
};

std::uint64_t capped(std::uint64_t value) { return std::min<std::uint64_t>(value, zip::kMax32); }

}  // namespace

Result<void> ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  Record record{name, zip::crc32(data), data.size(), file_.size()};
  const bool big = record.size >= zip::kMax32;
  Fields extra;
  if (big) extra.u16(zip::kExtra64).u16(16).u64(record.size).u64(record.size);
  const std::uint64_t unpadded = record.offset + zip::kLocalSize + name.size() + extra.size() + 4;
  const std::uint64_t padding = (zip::kAlignment - unpadded % zip::kAlignment) % zip::kAlignment;
  extra.u16(zip::kExtraPadding).u16(padding).fill(padding, 'Z');

  Fields header;
  header.u32(zip::kLocalSignature).u16(big ? 45 : 20).u16(zip::kUtf8).u16(0).u16(0).u16(0x21);
  header.u32(record.crc)
      .u32(capped(record.size))
      .u32(capped(record.size))
      .u16(name.size())
      .u16(extra.size())
      .text(name);
  records_.push_back(record);
  if (Result<void> done = file_.write(header.bytes()); !done) return done;
  if (Result<void> done = file_.write(extra.bytes()); !done) return done;
  return file_.write(data);
}

Result<void> ZipWriter::finish() {
  const std::uint64_t start = file_.size();
  Fields out;
  for (const Record& record : records_) {
    Fields extra;
    if (record.size >= zip::kMax32) extra.u64(record.size).u64(record.size);
    if (record.offset >= zip::kMax32) extra.u64(record.offset);
    const bool big = extra.size() > 0;
    out.u32(zip::kCentralSignature)
        .u16(big ? 45 : 20)
        .u16(big ? 45 : 20)
        .u16(zip::kUtf8)
        .u16(0)
        .u16(0)
        .u16(0x21);
    out.u32(record.crc).u32(capped(record.size)).u32(capped(record.size)).u16(record.name.size());
    out.u16(big ? extra.size() + 4 : 0)
        .u16(0)
        .u16(0)
        .u16(0)
        .u32(0)
        .u32(capped(record.offset))
        .text(record.name);
    if (big) {
      out.u16(zip::kExtra64).u16(extra.size());
      for (const std::byte byte : extra.bytes()) out.fill(1, static_cast<char>(byte));
    }
  }
  const std::uint64_t size = out.size();
  const std::uint64_t count = records_.size();
  if (count >= zip::kMax16 || start >= zip::kMax32 || size >= zip::kMax32) {
    out.u32(zip::kEnd64Signature).u64(zip::kEnd64Size - 12).u16(45).u16(45).u32(0).u32(0);
    out.u64(count).u64(count).u64(size).u64(start);
    out.u32(zip::kLocator64Signature).u32(0).u64(start + size).u32(1);
  }
  const std::uint64_t short_count = std::min<std::uint64_t>(count, zip::kMax16);
  out.u32(zip::kEndSignature)
      .u16(0)
      .u16(0)
      .u16(short_count)
      .u16(short_count)
      .u32(capped(size))
      .u32(capped(start))
      .u16(0);
  return file_.write(out.bytes());
}

}  // namespace ddprun::runtime
