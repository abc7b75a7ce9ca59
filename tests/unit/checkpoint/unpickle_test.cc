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
  CHECK(refusal(program).find("it stands for more than ") == 0);
}

// ['x' * (1 << 20)] * 300: a mebibyte that the file holds once.
TEST_CASE("a long text that is repeated by reference is refused before it fills the memory") {
  std::string program("\x80\x02](X\0\0\x10\0"sv);
  program += std::string(std::size_t{1} << 20, 'x');
  program += "q\0"sv;
  for (int i = 1; i < 300; ++i) program += "h\0"sv;
  program += "e."sv;
  CHECK(
      refusal(program) ==
      "it stands for more than 134256832 bytes of values, and its data.pkl has 1049187; repeated references "
      "make it grow");
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

namespace {

// A tensor over a storage of `count` zeros; `rest` is everything from its offset on.
Result<PtValue> read_tensor(std::string_view storage_type, int count, std::string_view rest) {
  static const std::array<double, 8> zeros{};
  std::string program = "\x80\x02";
  program += "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n"sv;
  program += storage_type;
  program +=
      "\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK"sv;
  program += static_cast<char>(count);
  program += "tQ"sv;
  program += rest;
  const std::size_t size = storage_type == "BoolStorage" ? 1 : storage_type == "FloatStorage" ? 4 : 8;
  const std::size_t bytes = static_cast<std::size_t>(count) * size;
  return unpickle(std::as_bytes(std::span(program)), [&](const std::string&) {
    return Result<std::span<const std::byte>>(std::as_bytes(std::span(zeros)).first(bytes));
  });
}

}  // namespace

TEST_CASE("a tensor without elements has any size, as torch.empty(5, 0) has") {
  const auto value = read_tensor("FloatStorage", 0, "K\0K\x05K\0\x86K\x01K\x01\x86\x89}tR."sv);
  REQUIRE(value.has_value());
  CHECK(value->as_tensor().sizes() == at::IntArrayRef({5, 0}));
}

// torch._utils._rebuild_tensor_v2: its seventh argument is a dict of tensor metadata.
TEST_CASE("conjugate and negative views stay what they are") {
  const std::string_view conj = "K\0K\x02\x85K\x01\x85\x89}}X\x04\0\0\0conj\x88stR."sv;
  const auto conjugate = read_tensor("ComplexFloatStorage", 2, conj);
  REQUIRE(conjugate.has_value());
  CHECK(conjugate->as_tensor().is_conj());
  CHECK(conjugate->as_tensor().sizes() == at::IntArrayRef({2}));
  const std::string_view neg = "K\0K\x02\x85K\x01\x85\x89}}X\x03\0\0\0neg\x88stR."sv;
  const auto negative = read_tensor("FloatStorage", 2, neg);
  REQUIRE(negative.has_value());
  CHECK(negative->as_tensor().is_neg());
  CHECK(read_tensor("FloatStorage", 2, conj).error().message() ==
        "a tensor of type Float is marked as conjugate, which only complex ones can be");
  CHECK(read_tensor("BoolStorage", 8, neg).error().message() ==
        "a tensor of type Bool is marked as negative, which only numbers can be");
}

TEST_CASE("a tensor of more elements than there are numbers is refused") {
  // [2^40, 2^40], both with stride 0: one element of storage.
  const std::string_view huge = "K\0\x8a\x06\0\0\0\0\0\x01\x8a\x06\0\0\0\0\0\x01\x86K\0K\0\x86\x89}tR."sv;
  CHECK(read_tensor("FloatStorage", 1, huge).error().message() ==
        "a tensor of size [1099511627776, 1099511627776] has more elements than can be counted");
}

TEST_CASE("a tensor that reaches beyond its storage is refused") {
  const auto value = read_tensor("FloatStorage", 4, "K\x01K\x04\x85K\x01\x85\x89}tR."sv);
  CHECK(value.error().message() ==
        "a tensor of size [4] and stride [1] at offset 1 reaches beyond its storage of 4 elements");
}

// {'a': 1, 1: 2, 'a': 3, True: 4, 1.0: 5, (1, 'b'): 6, (True, 'b'): 7}
TEST_CASE("of a key that a dict has twice the last value counts, in the first one's place, as in Python") {
  const auto value = read(
      "\x80\x02}(X\x01\0\0\0aK\x01K\x01K\x02X\x01\0\0\0aK\x03\x88K\x04G\x3f\xf0\0\0\0\0\0\0K\x05"
      "K\x01X\x01\0\0\0b\x86K\x06\x88X\x01\0\0\0b\x86K\x07u."sv);
  REQUIRE(value.has_value());
  const PtDict& dict = value->as_dict();
  REQUIRE(dict.entries.size() == 3);
  CHECK(dict.entries[0].first.as_string() == "a");
  CHECK(dict.at("a").as_int() == 3);
  CHECK(dict.find(1)->as_int() == 5);
  CHECK(dict.entries[2].second.as_int() == 7);
}

TEST_CASE("a dict of 200,000 keys is read in time that grows with them alone") {
  std::string program = "\x80\x02}(";
  for (int i = 0; i < 200'000; ++i) {
    program += 'J';
    for (int byte = 0; byte < 4; ++byte) program += static_cast<char>(i >> (8 * byte));
    program += 'N';
  }
  program += "u.";
  const auto value = read(program);
  REQUIRE(value.has_value());
  CHECK(value->as_dict().entries.size() == 200'000);
}

// {(…(('x' * (1 << 20),),)…): None} with one key, a hundred tuples deep, a hundred times: each time it is compared
// whole.
TEST_CASE("a dict whose few bytes stand for large keys is refused before these are compared for long") {
  std::string program("\x80\x02X\0\0\x10\0"sv);
  program += std::string(std::size_t{1} << 20, 'x') + std::string(100, '\x85');
  program +=
      "q\0"
      "0}("sv;
  for (int i = 0; i < 100; ++i) program += "h\0N"sv;
  program += "u."sv;
  CHECK(refusal(program).find("it stands for more than ") == 0);
}

namespace {

std::string ones(std::size_t count) {
  std::string tuple = "(";
  for (std::size_t i = 0; i < count; ++i) tuple += "K\x01"sv;
  return tuple + "t";
}

/// A list of `count` tensors of `dimensions` dimensions, whose size and stride are written once, and meant by two bytes
/// each.
std::string many_tensors(std::size_t count, std::size_t dimensions) {
  std::string program(
      "\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x01tQq\0000"sv);
  program += ones(dimensions) + "q\x01" + "0ctorch._utils\n_rebuild_tensor_v2\nq\x02" + "0](";
  for (std::size_t i = 0; i < count; ++i) program += "h\x02(h\0K\0h\x01h\x01\x89tR"sv;
  return program + "e.";
}

Result<PtValue> read_with_one_float(const std::string& program) {
  const std::array<std::byte, 4> one{};
  return unpickle(std::as_bytes(std::span(program)),
                  [&](const std::string&) { return Result<std::span<const std::byte>>(one); });
}

}  // namespace

TEST_CASE("tensors of 64 dimensions are read, and none of more") {
  CHECK(read_with_one_float(many_tensors(1, 64))->as_sequence()[0].as_tensor().dim() == 64);
  CHECK(read_with_one_float(many_tensors(1, 65)).error().message() ==
        "a tensor has a size or stride of 65 numbers, and 64 dimensions are the limit");
  CHECK(read_with_one_float(many_tensors(20'000, 100'000)).error().message() ==
        "a tensor has a size or stride of 100000 numbers, and 64 dimensions are the limit");
}

TEST_CASE("more tensors than the size of the file allows are refused before they fill the memory") {
  CHECK(read_with_one_float(many_tensors(1000, 64)).has_value());
  CHECK(read_with_one_float(many_tensors(250'000, 64))
            .error()
            .message()
            .starts_with("it stands for more than "));
}

TEST_CASE("what libtorch refuses to make is a damaged file") {
  const auto value = read_tensor("FloatStorage", 0,
                                 "K\0J\xff\xff\xff\x7fJ\xff\xff\xff\x7fK\0\x87K\x01K\x01K\x01\x87\x89}tR."sv);
  CHECK((value.has_value() || value.error().code() == ErrorCode::kCorrupt));
}
