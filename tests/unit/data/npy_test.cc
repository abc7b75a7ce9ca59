#include "worker/data/npy.h"

#include "tests/support/catch.h"
#include "tests/unit/data/npy_bytes.h"

#include <torch/types.h>

using namespace ddprun;
using ddprun::testing::header_of;
using ddprun::testing::npy;

namespace {

std::string npy_refusal(const std::vector<std::uint8_t>& bytes) {
  return data::parse_npy(bytes, "x.npy").error().message();
}

}  // namespace

TEST_CASE("an .npy file gives rows of numbers") {
  const auto bytes = data::parse_npy(npy(header_of("|u1", "(2, 3)"), "\x01\x02\x03\x04\x05\xff"), "x.npy");
  REQUIRE(bytes.has_value());
  CHECK(torch::equal(*bytes, torch::tensor({1, 2, 3, 4, 5, 255}, torch::kByte).view({2, 3})));
  const auto wide =
      data::parse_npy(npy(header_of("<i8", "(1,)"), std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8)), "x");
  CHECK(torch::equal(*wide, torch::tensor({-2}, torch::kLong)));
  const auto of_two = data::parse_npy(npy(header_of("<u2", "(2,)"), std::string("\x01\x00\xff\xff", 4)), "x");
  CHECK(torch::equal(*of_two, torch::tensor({1, 65535}, torch::kInt)));
  const auto of_four = data::parse_npy(npy(header_of("<u4", "(1,)"), "\xff\xff\xff\xff"), "x");
  CHECK(torch::equal(*of_four, torch::tensor({4294967295}, torch::kLong)));
}

TEST_CASE("an .npy file that is wrong is refused with what was found") {
  const std::string start = "x.npy is no file of numpy.save that can be read: ";
  CHECK(npy_refusal({1, 2, 3}) == start + "it does not begin as one");
  CHECK(npy_refusal(npy(header_of("<c8", "(1,)"), "12345678")) == start + "its numbers are of kind '<c8'");
  CHECK(npy_refusal(npy(header_of("|u1", "(2, 2)", "True"), "1234")) ==
        start + "it is in Fortran's order; save numpy.ascontiguousarray of it");
  CHECK(npy_refusal(npy(header_of("|u1", "()"), "1")) == start + "it holds a single number, expected rows");
  CHECK(npy_refusal(npy(header_of("<f4", "(3,)"), "12345678")) ==
        start + "its shape is (3), and 8 bytes of 4 each follow");
  CHECK(npy_refusal(npy(header_of("|u1", "(1099511627776, 1099511627776)"), "1")) ==
        start + "its shape is (1099511627776, 1099511627776), and 1 bytes of 1 each follow");
  const std::string empty = "(0, 1099511627776, 1099511627776)";
  CHECK(npy_refusal(npy(header_of("|u1", empty), "")) ==
        start + "its shape is " + empty + ", and 0 bytes of 1 each follow");
}
