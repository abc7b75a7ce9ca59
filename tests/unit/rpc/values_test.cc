#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace ddprun::rpc {
namespace {

template <class T>
T sent(T value) {
  return Wire<T>::unpack(Wire<T>::pack(value));
}

/// What is said of a number that does not fit into a T.
template <class T>
std::string refusal_of(const c10::IValue& number) {
  try {
    Wire<T>::unpack(number);
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

template <class T>
std::string name_of() {
  try {
    return Wire<T>::type()->str();
  } catch (const std::exception&) {
    return "none";
  }
}

constexpr std::int64_t kLarge = 4294967297;
constexpr const char* kTooLarge =
    "rpc: the number 4294967297 does not fit into 32 bits with a sign; take it as a std::int64_t";

TEST_CASE("numbers within something else travel, or are refused, as they do alone") {
  CHECK(sent(std::optional<int>(5)) == 5);
  CHECK(sent(std::optional<int>()) == std::nullopt);
  CHECK(sent(std::tuple<int, double>(5, 0.5)) == std::tuple<int, double>(5, 0.5));
  CHECK(Wire<std::optional<double>>::unpack(5) == 5.0);
  CHECK(Wire<std::tuple<double>>::unpack(std::tuple<std::int64_t>(5)) == std::tuple(5.0));
  CHECK(refusal_of<std::optional<int>>(kLarge) == kTooLarge);
  CHECK(refusal_of<std::optional<std::int8_t>>(300) ==
        "rpc: the number 300 does not fit into 8 bits with a sign; take it as a std::int64_t");
  CHECK(refusal_of<std::tuple<int, double>>(std::tuple<std::int64_t, double>(kLarge, 0.5)) == kTooLarge);
}

TEST_CASE("lists of numbers of any size travel, within others as well") {
  CHECK(sent(std::vector<std::uint8_t>{1, 255}) == std::vector<std::uint8_t>{1, 255});
  CHECK(sent(std::vector<bool>{true, false}) == std::vector<bool>{true, false});
  CHECK(sent(std::vector<std::vector<float>>{{0.5F}, {}}) == std::vector<std::vector<float>>{{0.5F}, {}});
  CHECK(Wire<std::vector<int>>::pack({1}).isIntList());
  CHECK(refusal_of<std::vector<int>>(std::vector<std::int64_t>{1, kLarge}) == kTooLarge);
}

TEST_CASE("a list of what holds references is one of anything, which libtorch reads") {
  CHECK(name_of<std::vector<std::optional<RRef<at::Tensor>>>>() == "Any[]");
  CHECK(name_of<std::vector<std::tuple<std::string, RRef<at::Tensor>>>>() == "Any[]");
  CHECK(name_of<std::optional<c10::IValue>>() == "Any");
}

TEST_CASE("a tuple of another size is refused") {
  CHECK(refusal_of<std::tuple<int, int>>(std::tuple<std::int64_t>(1)) ==
        "rpc: a tuple of 2 was to come, not one of type (int)");
}

TEST_CASE("what holds numbers of any size has a type") {
  CHECK(name_of<std::optional<int>>() == "int?");
  CHECK(name_of<std::tuple<int, float>>() == "(int, float)");
  CHECK(name_of<std::optional<std::int8_t>>() == "int?");
}

}  // namespace
}  // namespace ddprun::rpc
