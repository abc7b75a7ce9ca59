#include "worker/data/md5.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddprun::data {
namespace {

/// §3.4: the whole part of 2^32 · |sin(i + 1)|.
const std::array<std::uint32_t, 64>& sines() {
  static const std::array<std::uint32_t, 64> table = [] {
    std::array<std::uint32_t, 64> made{};
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<std::uint32_t>(std::fabs(std::sin(static_cast<double>(i + 1))) * 4294967296.0);
    return made;
  }();
  return table;
}

constexpr std::array<std::array<int, 4>, 4> kTurns{
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

/// The four round functions, and which word of the block step `i` takes.
std::uint32_t mix(std::size_t round, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  if (round == 0) return (b & c) | (~b & d);
  if (round == 1) return (b & d) | (c & ~d);
  if (round == 2) return b ^ c ^ d;
  return c ^ (b | ~d);
}

constexpr std::array<std::size_t, 4> kStride{1, 5, 3, 7};
constexpr std::array<std::size_t, 4> kStart{0, 1, 5, 0};

}  // namespace

void Md5::take_block(const std::uint8_t* block) {
  std::array<std::uint32_t, 16> words{};
  for (std::size_t i = 0; i < kBlock; ++i)
    words[i / 4] |= static_cast<std::uint32_t>(block[i]) << (8 * (i % 4));
  auto [a, b, c, d] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t round = i / 16;
    const std::uint32_t word = words[(kStart[round] + kStride[round] * i) % 16];
    const std::uint32_t sum = a + mix(round, b, c, d) + word + sines()[i];
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kTurns[round][i % 4]);
  }
  const std::array<std::uint32_t, 4> turned{a, b, c, d};
  for (std::size_t i = 0; i < 4; ++i) state_[i] += turned[i];
}

void Md5::add(std::span<const std::uint8_t> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (rest_size_ == 0 && bytes.size() >= kBlock) {
      take_block(bytes.data());
      bytes = bytes.subspan(kBlock);
      continue;
    }
    const std::size_t taken = std::min(kBlock - rest_size_, bytes.size());
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(rest_size_));
    rest_size_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_size_ < kBlock) continue;
    take_block(rest_.data());
    rest_size_ = 0;
  }
}

std::string Md5::finish() {
  const std::uint64_t bits = 8 * size_;
  // A one, zeros up to 8 bytes before the end of a block, and the length.
  constexpr std::array<std::uint8_t, kBlock> kPadding{0x80};
  const std::size_t end = rest_size_ < kBlock - 8 ? kBlock - 8 : 2 * kBlock - 8;
  add(std::span(kPadding).first(end - rest_size_));
  std::array<std::uint8_t, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::uint8_t>(bits >> (8 * i));
  add(length);
  std::string digits;
  for (const std::uint32_t word : state_)
    for (int shift = 0; shift < 32; shift += 8) digits += fmt::format("{:02x}", (word >> shift) & 0xff);
  return digits;
}

}  // namespace ddprun::data
