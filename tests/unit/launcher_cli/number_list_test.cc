#include "launcher/text/number_list.h"

#include "launcher/plan/host.h"
#include "tests/support/catch.h"

using namespace ddprun::launcher;

TEST_CASE("the kernel's list format is read and written") {
  CHECK(parse_number_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_number_list("").empty());
  CHECK(is_in_number_list("0-3,8", 3));
  CHECK(is_in_number_list("0-2000000000", 8));
  CHECK_FALSE(is_in_number_list("0-3,8", 4));
  CHECK(format_number_list({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(format_number_list({}).empty());
}

TEST_CASE("visible devices end at the first entry that names none, as in CUDA") {
  CHECK(parse_visible_devices("0, 2,GPU-abc") == std::vector<std::string>{"0", "2", "GPU-abc"});
  CHECK(parse_visible_devices("0,-1,1") == std::vector<std::string>{"0"});
  CHECK(parse_visible_devices("").empty());
  CHECK(parse_visible_devices("-1").empty());
}
