#include "worker/runtime/comm/shm/kernels.h"

#include "tests/support/catch.h"
#include "worker/runtime/comm/shm/kernels_isa.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace ddprun::runtime::shm;

namespace {

constexpr std::array kDTypes{DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                             DType::kInt8,    DType::kUint8,   DType::kInt16,   DType::kInt32,
                             DType::kInt64,   DType::kBool};
constexpr std::array kOps{ReduceOp::kSum,     ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                          ReduceOp::kAverage, ReduceOp::kAnd,     ReduceOp::kOr,  ReduceOp::kXor};

template <class T>
std::vector<T> combine(DType dtype, ReduceOp op, std::vector<T> a, const std::vector<T>& b) {
  auto* const bytes = reinterpret_cast<std::byte*>(a.data());
  find_kernels(dtype, op)->combine(bytes, bytes, reinterpret_cast<const std::byte*>(b.data()), a.size());
  return a;
}

std::uint16_t add_halves(std::uint16_t a, std::uint16_t b) {
  return combine<std::uint16_t>(DType::kFloat16, ReduceOp::kSum, {a}, {b})[0];
}

void clear_signs_of_nans(std::vector<std::byte>& halves) {
  for (std::size_t i = 0; i + 1 < halves.size(); i += 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, &halves[i], 2);
    if ((half & 0x7fff) > 0x7c00) half &= 0x7fff;
    std::memcpy(&halves[i], &half, 2);
  }
}

double value_of_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_finite_half(std::uint16_t half) { return (half & 0x7c00) != 0x7c00; }

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("every dtype has every operation, but for bitwise ones on floats") {
  for (const DType dtype : kDTypes) {
    const bool is_float = dtype <= DType::kBFloat16;
    for (const ReduceOp op : kOps) {
      const bool is_bitwise = op >= ReduceOp::kAnd;
      INFO(to_string(dtype) << " " << to_string(op));
      CHECK((find_kernels(dtype, op) != nullptr) == !(is_float && is_bitwise));
    }
  }
  CHECK(find_kernels(DType::kOther, ReduceOp::kSum) == nullptr);
}

TEST_CASE("operations do what they are called") {
  CHECK(combine<float>(DType::kFloat32, ReduceOp::kSum, {1.5F, -2}, {2, 3}) == std::vector<float>{3.5F, 1});
  CHECK(combine<double>(DType::kFloat64, ReduceOp::kProduct, {1.5, -2}, {2, 3}) ==
        std::vector<double>{3, -6});
  CHECK(combine<int>(DType::kInt32, ReduceOp::kMin, {1, -2}, {-7, 3}) == std::vector<int>{-7, -2});
  CHECK(combine<int>(DType::kInt32, ReduceOp::kMax, {1, -2}, {-7, 3}) == std::vector<int>{1, 3});
  CHECK(combine<int>(DType::kInt32, ReduceOp::kAnd, {6, 5}, {3, 5}) == std::vector<int>{2, 5});
  CHECK(combine<int>(DType::kInt32, ReduceOp::kOr, {6, 5}, {3, 5}) == std::vector<int>{7, 5});
  CHECK(combine<int>(DType::kInt32, ReduceOp::kXor, {6, 5}, {3, 5}) == std::vector<int>{5, 0});
}

TEST_CASE("integers wrap around") {
  CHECK(combine<std::int8_t>(DType::kInt8, ReduceOp::kSum, {127}, {1})[0] == -128);
  CHECK(combine<std::uint8_t>(DType::kUint8, ReduceOp::kSum, {255}, {2})[0] == 1);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(combine<std::int64_t>(DType::kInt64, ReduceOp::kSum, {kMost}, {1})[0] ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(combine<std::int16_t>(DType::kInt16, ReduceOp::kProduct, {-32768}, {-1})[0] == -32768);
}

TEST_CASE("bools stay bools: a sum is an or, a product is an and") {
  const std::vector<std::uint8_t> a{0, 0, 1, 1};
  const std::vector<std::uint8_t> b{0, 1, 0, 1};
  CHECK(combine(DType::kBool, ReduceOp::kSum, a, b) == std::vector<std::uint8_t>{0, 1, 1, 1});
  CHECK(combine(DType::kBool, ReduceOp::kProduct, a, b) == std::vector<std::uint8_t>{0, 0, 0, 1});
}

TEST_CASE("a half plus nothing is itself, for every half that is a number") {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (half == 0x8000) continue;  // -0 + 0 is 0
    if ((half & 0x7fff) <= 0x7c00 && add_halves(half, 0) != half) ++wrong;
    if ((half & 0x7fff) > 0x7c00 && (add_halves(half, 0) & 0x7fff) <= 0x7c00) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("sums of halves are rounded to the nearest half, ties to even") {
  std::mt19937 random(7);
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto a = static_cast<std::uint16_t>(random());
    const auto b = static_cast<std::uint16_t>(random());
    if (!is_finite_half(a) || !is_finite_half(b)) continue;
    const double exact = value_of_half(a) + value_of_half(b);
    const std::uint16_t sum = add_halves(a, b);
    if (!is_finite_half(sum)) {
      wrong += std::abs(exact) >= 65520 ? 0 : 1;
      continue;
    }
    const double error = std::abs(value_of_half(sum) - exact);
    for (const int step : {-1, 1}) {
      const auto neighbour = static_cast<std::uint16_t>(sum + step);
      if ((neighbour ^ sum) & 0x8000 || !is_finite_half(neighbour)) continue;
      const double other = std::abs(value_of_half(neighbour) - exact);
      if (other < error || (other == error && (sum & 1) != 0)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16 sums are rounded to nearest even, and stay not-a-number") {
  const auto sum = [](std::uint16_t a, std::uint16_t b) {
    return combine<std::uint16_t>(DType::kBFloat16, ReduceOp::kSum, {a}, {b})[0];
  };
  CHECK(sum(0x3f80, 0x3f80) == 0x4000);  // 1 + 1 = 2
  CHECK(sum(0x3f80, 0x3b80) == 0x3f80);  // 1 + 2^-8: tie, to even
  CHECK(sum(0x3f81, 0x3b80) == 0x3f82);  // 1.0078125 + 2^-8: tie, to even
  CHECK((sum(0x7fc0, 0x3f80) & 0x7fff) > 0x7f80);
}

TEST_CASE("min and max of halves pick one of the two, bit for bit") {
  for (const auto& [dtype, one] : {std::pair(DType::kFloat16, 0x3c00), std::pair(DType::kBFloat16, 0x3f80)}) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (const int bits : {0x7fc3, 0xffc5, 0xfd01}) {  // NaNs of either sign, with a payload
        const std::vector<std::uint16_t> nan{static_cast<std::uint16_t>(bits)};
        const std::vector<std::uint16_t> number{static_cast<std::uint16_t>(one)};
        if (dtype == DType::kBFloat16 && bits == 0xfd01) continue;  // a number there
        CHECK(combine(dtype, op, nan, number) == number);
        CHECK(combine(dtype, op, number, nan) == nan);
      }
      CHECK(combine<std::uint16_t>(dtype, op, {0x8000}, {0})[0] == 0);
      CHECK(combine<std::uint16_t>(dtype, op, {0}, {0x8000})[0] == 0x8000);
    }
  }
}

TEST_CASE("all instruction sets agree to the last bit, at every length") {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      const Kernels* const ours = find_kernels(dtype, op);
      const Kernels* const generic = generic::find_kernels(dtype, op);
      if (ours == nullptr) continue;
      for (const std::size_t count : {1, 3, 16, 17, 63, 64, 129, 1000}) {
        const std::size_t bytes = count * item_size(dtype);
        const auto a = random_bytes(bytes, 1);
        const auto b = random_bytes(bytes, 2);
        std::vector<std::byte> one(bytes), two(bytes), expected(bytes), unused(bytes);
        ours->combine_two(one.data(), two.data(), a.data(), b.data(), count);
        generic->combine(expected.data(), a.data(), b.data(), count);
        INFO(to_string(dtype) << " " << to_string(op) << " " << count);
        CHECK(one == two);
        // Which of two not-a-numbers survives is up to the order in which the compiler hands them to the processor: of
        // a half that is its sign.
        if (dtype == DType::kFloat32 || dtype == DType::kFloat64) continue;
        if (dtype == DType::kFloat16 && op != ReduceOp::kMin && op != ReduceOp::kMax) {
          clear_signs_of_nans(one);
          clear_signs_of_nans(expected);
        }
        CHECK(one == expected);
      }
    }
  }
}

TEST_CASE("an average divides") {
  std::vector<float> values{3, 4.5F};
  find_kernels(DType::kFloat32, ReduceOp::kAverage)
      ->divide(reinterpret_cast<std::byte*>(values.data()), 3, 2);
  CHECK(values == std::vector<float>{1, 1.5F});
}
