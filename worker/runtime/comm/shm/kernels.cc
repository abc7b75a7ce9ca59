// Compiled once per instruction set (CMakeLists.txt), each time into a namespace of its own. It must use
// nothing that the linker could share between the copies: no inline function of the standard library, only
// templates in the unnamed namespace.
#include "worker/runtime/comm/shm/kernels_isa.h"

#include <type_traits>

namespace ddprun::runtime::shm::DDPRUN_SHM_ISA {
namespace {

// std::bit_cast, but ours.
template <class To, class From>
To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

// ---- storage types: how an element is read, computed with and written

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

struct Half {
  using Stored = std::uint16_t;
  using Value = float;

  // The half's exponent and mantissa, put where a float has them, are the value times 2^-112.
  static Value load(Stored stored) {
    const std::uint32_t magnitude = (static_cast<std::uint32_t>(stored) & 0x7fffU) << 13U;
    const float scaled = bits_as<float>(magnitude) * 0x1p112F;
    const std::uint32_t infinite = magnitude >= 0x0f800000U ? 0x7f800000U : 0U;
    const std::uint32_t sign = (static_cast<std::uint32_t>(stored) & 0x8000U) << 16U;
    return bits_as<float>(bits_as<std::uint32_t>(scaled) | infinite | sign);
  }

  // Below 2^-14 the adder of 0.5 rounds to the half's last denormal bit; above, the mantissa is rounded by
  // hand.
  static Stored store(Value value) {
    const std::uint32_t bits = bits_as<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t tiny = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F) - 0x3f000000U;
    const std::uint32_t rounded = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U;
    const std::uint32_t normal = rounded - (112U << 10U);
    const std::uint32_t finite = magnitude < 0x38800000U ? tiny : normal;
    const std::uint32_t large = magnitude >= 0x477ff000U ? 0x7c00U : finite;
    const std::uint32_t result = magnitude > 0x7f800000U ? 0x7e00U : large;
    return static_cast<Stored>(result | sign);
  }
};

struct BFloat {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return bits_as<float>(static_cast<std::uint32_t>(stored) << 16U); }
  static Stored store(Value value) {
    const std::uint32_t bits = bits_as<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    return static_cast<Stored>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
  }
};

struct Bool {
  using Stored = std::uint8_t;
  using Value = bool;
  static Value load(Stored stored) { return stored != 0; }
  static Stored store(Value value) { return value ? 1 : 0; }
};

// ---- operations

// Unsigned and at least 32 bits wide, so that neither promotion nor overflow is undefined.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  }
};

struct Product {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  }
};

// std::min and std::max, which gloo calls with the rank's own number first: of two that are equal or not comparable the
// first.
struct Min {
  template <class T>
  static bool takes_second(T a, T b) {
    return b < a;
  }
};

struct Max {
  template <class T>
  static bool takes_second(T a, T b) {
    return a < b;
  }
};

struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class Op>
constexpr bool kPicks = std::is_same_v<Op, Min> || std::is_same_v<Op, Max>;

// What is picked keeps its bits: a NaN of a half may have others when it has been a float.
template <class Type, class Op>
typename Type::Stored combined(typename Type::Stored x, typename Type::Stored y) {
  const auto a = Type::load(x);
  const auto b = Type::load(y);
  if constexpr (!kPicks<Op>)
    return Type::store(Op::apply(a, b));
  else if constexpr (std::is_same_v<Type, Bool>)
    return Type::store(Op::takes_second(b, a) ? a : b);
  else
    return Op::takes_second(b, a) ? x : y;
}

// ---- loops

// "omp simd": an output that is an input is no dependence between iterations, which the compiler cannot know.
template <class Type, class Op>
void combine(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count) {
  using Stored = typename Type::Stored;
  auto* const o = reinterpret_cast<Stored*>(out);
  const auto* const x = reinterpret_cast<const Stored*>(a);
  const auto* const y = reinterpret_cast<const Stored*>(b);
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) o[i] = combined<Type, Op>(x[i], y[i]);
}

template <class Type, class Op>
void combine_two(std::byte* out0, std::byte* out1, const std::byte* a, const std::byte* b,
                 std::size_t count) {
  using Stored = typename Type::Stored;
  auto* const o = reinterpret_cast<Stored*>(out0);
  auto* const p = reinterpret_cast<Stored*>(out1);
  const auto* const x = reinterpret_cast<const Stored*>(a);
  const auto* const y = reinterpret_cast<const Stored*>(b);
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const Stored value = combined<Type, Op>(x[i], y[i]);
    o[i] = value;
    p[i] = value;
  }
}

template <class Type>
void divide(std::byte* values, std::size_t divisor, std::size_t count) {
  using Value = typename Type::Value;
  auto* const v = reinterpret_cast<typename Type::Stored*>(values);
  if constexpr (!std::is_same_v<Value, bool>) {
    const Value by = static_cast<Value>(divisor);
    for (std::size_t i = 0; i < count; ++i) v[i] = Type::store(static_cast<Value>(Type::load(v[i]) / by));
  }
}

template <class Type, class Op>
constexpr Kernels kKernels{&combine<Type, Op>, &combine_two<Type, Op>, &divide<Type>};

template <class Type>
const Kernels* find_op(ReduceOp op) {
  constexpr bool is_integer = std::is_integral_v<typename Type::Value>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return &kKernels<Type, Sum>;
    case ReduceOp::kProduct:
      return &kKernels<Type, Product>;
    case ReduceOp::kMin:
      return &kKernels<Type, Min>;
    case ReduceOp::kMax:
      return &kKernels<Type, Max>;
    // A break for each operation that floating-point types do not have.
    // NOLINTBEGIN(bugprone-branch-clone)
    case ReduceOp::kAnd:
      if constexpr (is_integer) return &kKernels<Type, And>;
      break;
    case ReduceOp::kOr:
      if constexpr (is_integer) return &kKernels<Type, Or>;
      break;
    case ReduceOp::kXor:
      if constexpr (is_integer) return &kKernels<Type, Xor>;
      break;
      // NOLINTEND(bugprone-branch-clone)
  }
  return nullptr;
}

}  // namespace

const Kernels* find_kernels(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kFloat32:
      return find_op<Plain<float>>(op);
    case DType::kFloat64:
      return find_op<Plain<double>>(op);
    case DType::kFloat16:
      return find_op<Half>(op);
    case DType::kBFloat16:
      return find_op<BFloat>(op);
    case DType::kInt8:
      return find_op<Plain<std::int8_t>>(op);
    case DType::kUint8:
      return find_op<Plain<std::uint8_t>>(op);
    case DType::kInt16:
      return find_op<Plain<std::int16_t>>(op);
    case DType::kInt32:
      return find_op<Plain<std::int32_t>>(op);
    case DType::kInt64:
      return find_op<Plain<std::int64_t>>(op);
    case DType::kBool:
      return find_op<Bool>(op);
    case DType::kOther:
      break;
  }
  return nullptr;
}

}  // namespace ddprun::runtime::shm::DDPRUN_SHM_ISA
