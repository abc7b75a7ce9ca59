#include "worker/runtime/checkpoint/unpickle.h"

#include "tests/support/catch.h"

#include <array>
#include <string_view>

using namespace ddprun;
using namespace ddprun::runtime;
using namespace std::string_view_literals;

namespace {

Result<PtValue> read(std::string_view program) {
  return unpickle(std::as_bytes(std::span(program)),
                  [](const std::string& key) -> Result<std::span<const std::byte>> {
                    return Error(ErrorCode::kCorrupt, "record data/" + key + " is missing");
                  });
}

std::string refusal(std::string_view program) { return read(program).error().message(); }

}  // namespace

TEST_CASE("an object of another class is refused and never made") {
  CHECK(refusal("\x80\x02"
                "cos\nsystem\nX\x02\0\0\0ls\x85R."sv) ==
        "it holds an object of Python's os.system, which is more than weights; save a state_dict() instead");
}

TEST_CASE("a memo may share a value, as Python's pickler does") {
  const auto value = read(
      "\x80\x02]q\x00(X\x01\0\0\0aq\x01h\x01"
      "e."sv);
  REQUIRE(value.has_value());
  CHECK(value->as_sequence().at(1).as_string() == "a");
}

TEST_CASE("a list that contains itself is refused") {
  CHECK(refusal("\x80\x02]q\x00h\x00"
                "a."sv) == "its containers are nested more than 200 deep");
}

TEST_CASE("a few bytes that stand for billions of values are refused") {
  // l0 = [0, 0]; l1 = [l0, l0]; …: 2^40 values from 40 lists.
  std::string program = "\x80\x02";
  program += "](K\0K\0e"sv;
  for (int i = 0; i < 40; ++i) {
    program += 'q';
    program += static_cast<char>(i);
    program += "0](h"sv;
    program += static_cast<char>(i);
    program += 'h';
    program += static_cast<char>(i);
    program += 'e';
  }
  program += '.';
  CHECK(refusal(program) == "it holds more than 16777216 values");
}

TEST_CASE("a program that ends early, takes from nothing or is rubbish is refused") {
  CHECK(refusal("\x80\x02X\x10\0\0\0short"sv) == "data.pkl ends early, after 12 bytes");
  CHECK(refusal("\x80\x02"
                "a."sv) == "data.pkl takes from an empty stack");
  CHECK(refusal("\x80\x02u."sv) == "data.pkl has no mark where one is needed");
  CHECK(refusal("\x80\x02(."sv) == "data.pkl takes from an empty stack");
  CHECK(refusal("\x80\x02\xff."sv) == "data.pkl has opcode 0xff at byte 2, which no weights-only file has");
  CHECK(refusal("\x80\x02h\x05."sv) == "data.pkl refers to memo 5, which is not there");
}

TEST_CASE("a tensor that reaches beyond its storage is refused") {
  static const std::array<float, 4> storage{};
  const std::string_view program =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n"
      "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x04tQ"
      "K\x01K\x04\x85K\x01\x85\x89}tR."sv;
  const auto value = unpickle(std::as_bytes(std::span(program)), [](const std::string&) {
    return Result<std::span<const std::byte>>(std::as_bytes(std::span(storage)));
  });
  CHECK(value.error().message() ==
        "a tensor of size [4] and stride [1] at offset 1 reaches beyond its storage of 4 elements");
}
