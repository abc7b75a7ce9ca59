#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <cstdint>
#include <limits>
#include <string>

namespace ddprun::rpc {
namespace {

template <class T>
T sent(T value) {
  return Wire<T>::unpack(Wire<T>::pack(value));
}

/// What is said of a number that does not fit into a T.
template <class T>
std::string refusal_of(std::int64_t number) {
  try {
    Wire<T>::unpack(c10::IValue(number));
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kConfig ? error.what() : "another code";
  }
  return "none";
}

template <class T>
bool ends_survive() {
  using Limits = std::numeric_limits<T>;
  return sent(Limits::min()) == Limits::min() && sent(Limits::max()) == Limits::max();
}

TEST_CASE("whole numbers of every size travel") {
  CHECK(ends_survive<std::int8_t>());
  CHECK(ends_survive<char>());
  CHECK(ends_survive<std::uint16_t>());
  CHECK(ends_survive<std::int32_t>());
  CHECK(ends_survive<std::uint32_t>());
  CHECK(ends_survive<std::int64_t>());
  CHECK(ends_survive<std::uint64_t>());
  CHECK(ends_survive<long long>());  // NOLINT: another type than std::int64_t
}

TEST_CASE("a whole number that does not fit is refused") {
  CHECK(refusal_of<std::int32_t>(4294967297) ==
        "rpc: the number 4294967297 does not fit into 32 bits with a sign; take it as a std::int64_t");
  CHECK(refusal_of<std::uint8_t>(-1) ==
        "rpc: the number -1 does not fit into 8 bits without a sign; take it as a std::int64_t");
  CHECK(refusal_of<std::uint64_t>(-1) == "none");
}

}  // namespace
}  // namespace ddprun::rpc
