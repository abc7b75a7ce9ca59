#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun::data {

/// MD5: whether a file is the one that was meant. It keeps off accidents, and nobody who forges files on purpose.
///
/// Source  RFC 1321
class Md5 {
 public:
  void add(std::span<const std::uint8_t> bytes);
  /// 32 small hexadecimal digits. Once, after the last bytes.
  std::string finish();

 private:
  static constexpr std::size_t kBlock = 64;
  void take_block(const std::uint8_t* block);

  std::array<std::uint32_t, 4> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::array<std::uint8_t, kBlock> rest_{};
  std::size_t rest_size_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace ddprun::data
