#include "worker/data/idx.h"

#include "tests/support/catch.h"

using namespace ddprun;
using Bytes = std::vector<std::uint8_t>;

namespace {

std::string refusal(Bytes bytes) { return data::parse_idx(std::move(bytes), 1, "labels").error().message(); }

}  // namespace

TEST_CASE("an IDX file gives its sizes and elements") {
  const auto array = data::parse_idx({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6}, 2, "x");
  REQUIRE(array.has_value());
  CHECK(array->sizes == std::vector<std::int64_t>{2, 3});
  CHECK(array->elements == Bytes{1, 2, 3, 4, 5, 6});
}

TEST_CASE("an IDX file with another magic number is refused with both numbers") {
  CHECK(refusal({0, 0, 8, 3, 0, 0, 0, 1, 7}) ==
        "labels is not an IDX file of 1-dimensional bytes: it begins with 0x00000803, expected 0x00000801");
}

TEST_CASE("an IDX file shorter than its header is refused") {
  CHECK(refusal({0, 0, 8}) == "labels is not an IDX file: it has 3 bytes, its header alone takes 8");
}

TEST_CASE("an IDX file with fewer or more elements than announced is refused with the numbers") {
  CHECK(refusal({0, 0, 8, 1, 0, 0, 0, 3, 1, 2}) ==
        "labels is truncated: its header announces 3 = 3 bytes of data, 2 follow; fetch it again");
  CHECK(refusal({0, 0, 8, 1, 0, 0, 0, 1, 1, 2}) ==
        "labels is damaged: its header announces 1 = 1 bytes of data, more follow; fetch it again");
}

TEST_CASE("the header of an IDX file says how long the file is") {
  const Bytes header{0, 0, 8, 2, 0, 0, 1, 0, 0, 0, 0, 3};
  const auto announced = data::parse_idx_header(header, 2, 1000, "x");
  REQUIRE(announced.has_value());
  CHECK(announced->bytes == 12 + 768);
  CHECK(announced->sizes == std::vector<std::int64_t>{256, 3});
  CHECK(data::parse_idx_header(header, 2, 100, "x").error().message() ==
        "x is damaged: its header announces 256 × 3 elements, more than the 100 bytes such a file can have; "
        "fetch it again");
}

TEST_CASE("sizes whose product overflows are refused") {
  const auto array =
      data::parse_idx({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 3, "x");
  CHECK_FALSE(array.has_value());
}
