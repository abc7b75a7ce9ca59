#include "worker/training/step/graph_plan.h"

#include "tests/support/catch.h"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace ddprun::training;

namespace {

BatchForm samples(std::int64_t count) { return {{{count, 28, 28}, at::kFloat}, {{count}, at::kLong}}; }

std::string word_for(GraphMove move) {
  return move == GraphMove::kEager ? "eager" : move == GraphMove::kRecord ? "record" : "replay";
}

/// What a plan says to batches of so many samples.
std::string moves(GraphPlan& plan, const std::vector<std::int64_t>& counts) {
  std::string all;
  for (const std::int64_t count : counts) all += word_for(plan.next(samples(count))) + ' ';
  return all;
}

}  // namespace

TEST_CASE("a step is recorded after the warm-up, once, and replayed from then on") {
  GraphPlan plan(3);
  CHECK(moves(plan, {8, 8, 8, 8, 8, 8}) == "eager eager eager record replay replay ");
}

TEST_CASE("a batch of another form is computed, before and after the recording") {
  GraphPlan plan(2);
  CHECK(moves(plan, {8, 5, 8, 8, 5, 5, 5, 8}) == "eager eager eager record eager eager eager replay ");
}

TEST_CASE("a job that goes on with the end of an epoch records its usual batches") {
  GraphPlan plan(2);
  CHECK(moves(plan, {5, 8, 8, 5, 8, 8}) == "eager eager eager eager record replay ");
}

TEST_CASE("batches of one size and two types are of two forms") {
  GraphPlan plan(1);
  plan.next({{{4}, at::kFloat}});
  CHECK(plan.next({{{4}, at::kDouble}}) == GraphMove::kEager);
  CHECK(plan.next({{{4}, at::kFloat}}) == GraphMove::kRecord);
  CHECK(plan.next({{{4}, at::kDouble}}) == GraphMove::kEager);
}
