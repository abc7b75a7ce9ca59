#include "launcher/agent/job_settings.h"

#include "tests/support/catch.h"

namespace ddprun::launcher {
namespace {

constexpr int kWorkers = 100;

Plan plan_of_many() {
  Plan plan;
  plan.local_world_size = LocalWorldSize(kWorkers);
  plan.log_root = "/logs/none_x";
  return plan;
}

}  // namespace

TEST_CASE("descriptors are kept for logs that are being closed where there are such") {
  const std::size_t least = needed_descriptors(plan_of_many());
  Plan plan = plan_of_many();
  SECTION("not without logs") { plan.options.max_restarts = 3; }
  SECTION("not where no generation can follow") { plan.options.tee.all = StdStream::kBoth; }
  SECTION("not where --log-dir is /dev/null") {
    plan.options.max_restarts = 3;
    plan.options.tee.all = StdStream::kBoth;
    plan.log_root.clear();
  }
  CHECK(needed_descriptors(plan) == least);
  CHECK(reserved_descriptors(plan, kWorkers) < kWorkers);
}

TEST_CASE("after a generation with logs, descriptors for as many are kept until others close them") {
  Plan plan = plan_of_many();
  const std::size_t least = needed_descriptors(plan);
  plan.options.max_restarts = 3;
  plan.options.tee.all = StdStream::kBoth;
  CHECK(needed_descriptors(plan) == least + 2 * kWorkers);
  plan.options.tee.all = StdStream::kErr;
  plan.options.redirects.all = StdStream::kErr;
  CHECK(needed_descriptors(plan) == least + kWorkers);
  CHECK(reserved_descriptors(plan, kWorkers) >= kWorkers);
}

}  // namespace ddprun::launcher
