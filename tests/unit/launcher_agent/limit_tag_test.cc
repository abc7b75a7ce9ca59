#include "launcher/cleanup/limit_tag.h"

#include "tests/support/catch.h"

#include <string>

using namespace ddprun::launcher;

namespace {

constexpr rlimit kUnlimited{RLIM_INFINITY, RLIM_INFINITY};

std::string limits_text(const std::string& soft, const std::string& hard) {
  return "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max address space         4611686018427387904  4611686018427387904  bytes     \n"
         "Max file locks            " +
         soft + "            " + hard +
         "            locks     \n"
         "Max pending signals       17                   17                   signals   \n";
}

}  // namespace

TEST_CASE("a job's limit is a number that nobody would choose, and no other job has") {
  const auto limit = tag_limit("ddprun-x", kUnlimited);
  REQUIRE(limit.has_value());
  CHECK(limit->rlim_cur > rlim_t{1} << 61);
  CHECK(limit->rlim_max == limit->rlim_cur);
  CHECK(limit->rlim_cur != tag_limit("ddprun-y", kUnlimited)->rlim_cur);
  CHECK(limit->rlim_cur == tag_limit("ddprun-x", kUnlimited)->rlim_cur);
}

TEST_CASE("a job inside a worker keeps the outer job's hard limit and has a smaller one of its own") {
  const auto outer = tag_limit("ddprun-outer", kUnlimited);
  const auto inner = tag_limit("ddprun-inner", *outer);
  REQUIRE(inner.has_value());
  CHECK(inner->rlim_max == outer->rlim_cur);
  CHECK(inner->rlim_cur < outer->rlim_cur);
  const std::string limits = limits_text(std::to_string(inner->rlim_cur), std::to_string(inner->rlim_max));
  CHECK(limits_have_tag(limits, outer->rlim_cur));
  CHECK(limits_have_tag(limits, inner->rlim_cur));
}

TEST_CASE("a low hard limit leaves no room for a mark") {
  CHECK_FALSE(tag_limit("ddprun-x", rlimit{1024, 1024}).has_value());
  CHECK_FALSE(tag_limit("ddprun-x", rlimit{0, 0}).has_value());
}

TEST_CASE("the mark is looked for in its own line of /proc/<pid>/limits") {
  CHECK(limits_have_tag(limits_text("42", "unlimited"), 42));
  CHECK(limits_have_tag(limits_text("unlimited", "42"), 42));
  CHECK_FALSE(limits_have_tag(limits_text("unlimited", "unlimited"), 17));
  CHECK_FALSE(limits_have_tag(limits_text("142", "421"), 42));
  CHECK_FALSE(limits_have_tag("", 42));
  CHECK_FALSE(limits_have_tag("Max file locks ", 42));
}

TEST_CASE("the mark is used where the kernel takes and shows it, and trying that changes no limit") {
  rlimit before{};
  ::getrlimit(RLIMIT_LOCKS, &before);
  const auto mark = usable_tag_limit("ddprun-x");
  rlimit after{};
  ::getrlimit(RLIMIT_LOCKS, &after);
  CHECK(mark.has_value() == tag_limit("ddprun-x", before).has_value());
  CHECK(after.rlim_cur == before.rlim_cur);
  CHECK(after.rlim_max == before.rlim_max);
}
