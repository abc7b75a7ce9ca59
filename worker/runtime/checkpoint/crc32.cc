#include "worker/runtime/checkpoint/zip_format.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ddprun::runtime::zip {
namespace {

std::uint32_t plain(std::uint32_t before, std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

#if defined(__x86_64__)

// A checksum is the remainder of a polynomial, and 16 bytes that stand n bits before others leave the same remainder
// as their two halves times x^(n+32) and x^(n-32), each modulo the checksum's own polynomial, added to those others
// (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). Four times
// 16 bytes are carried along at once. What is left, 16 bytes and the rest, is zlib's.
constexpr std::size_t kAtOnce = 64;

[[gnu::target("pclmul,sse2")]] __m128i load(const std::byte* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

[[gnu::target("pclmul,sse2")]] __m128i carried(__m128i value, __m128i by, __m128i onto) {
  const __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/// Of at least kAtOnce bytes.
[[gnu::target("pclmul,sse2")]] std::uint32_t carryless(std::span<const std::byte> data) {
  const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const std::byte* at = data.data();
  std::size_t left = data.size();
  __m128i first = _mm_xor_si128(load(at), _mm_cvtsi32_si128(-1));  // the checksum begins with ones
  __m128i second = load(at + 16), third = load(at + 32), fourth = load(at + 48);
  for (at += kAtOnce, left -= kAtOnce; left >= kAtOnce; at += kAtOnce, left -= kAtOnce) {
    first = carried(first, by_512, load(at));
    second = carried(second, by_512, load(at + 16));
    third = carried(third, by_512, load(at + 32));
    fourth = carried(fourth, by_512, load(at + 48));
  }
  first = carried(first, by_128, second);
  first = carried(first, by_128, third);
  first = carried(first, by_128, fourth);
  std::byte carried_bytes[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(carried_bytes), first);
  // As if nothing had come before these bytes: the ones are in them already.
  return plain(plain(0xffffffff, carried_bytes), {at, left});
}

#endif

}  // namespace

std::uint32_t crc32(std::span<const std::byte> data) {
#if defined(__x86_64__)
  static const bool has_carryless = __builtin_cpu_supports("pclmul") != 0;
  if (has_carryless && data.size() >= kAtOnce) return carryless(data);
#endif
  return plain(0, data);
}

}  // namespace ddprun::runtime::zip
