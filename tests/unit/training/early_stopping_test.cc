#include "worker/training/state/early_stopping.h"

#include "tests/support/catch.h"

#include <cmath>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

Plateau after_all(const EarlyStopping& options, const std::vector<double>& values) {
  Plateau plateau;
  for (std::size_t i = 0; i < values.size(); ++i)
    plateau = after_evaluation(plateau, options, values[i], static_cast<std::int64_t>(i) + 1);
  return plateau;
}

const EarlyStopping kStopByLoss{.patience = 2, .metric = {.name = "loss"}};
const EarlyStopping kStopByAccuracy{
    .patience = 2, .metric = {.name = "accuracy", .better = Metric::Better::kHigher}, .min_delta = 0.1};

}  // namespace

TEST_CASE("patience counts the evaluations since the best one") {
  const Plateau plateau = after_all(kStopByLoss, {3, 1, 2, 1});
  CHECK(plateau.best == 1);
  CHECK(plateau.best_epoch == 2);
  CHECK(plateau.evaluations == 2);
  CHECK(is_patience_over(plateau, 2));
  CHECK_FALSE(is_patience_over(plateau, 3));
  CHECK_FALSE(is_patience_over(plateau, 0));
}

TEST_CASE("better is higher where the metric says so, and by more than min_delta") {
  CHECK(after_all(kStopByAccuracy, {0.5, 0.59}).evaluations == 1);
  CHECK(after_all(kStopByAccuracy, {0.5, 0.61}).evaluations == 0);
  CHECK(after_all(kStopByAccuracy, {0.5, 0.3}).best == 0.5);
}

TEST_CASE("what is no finite number is never better") {
  CHECK(after_all(kStopByLoss, {NAN, NAN}).evaluations == 2);
  CHECK_FALSE(after_all(kStopByLoss, {NAN, -INFINITY}).best);
  CHECK(after_all(kStopByLoss, {NAN, 5}).best == 5);
}

TEST_CASE("another metric begins anew") {
  const Plateau plateau = after_evaluation(after_all(kStopByLoss, {3, 4}), kStopByAccuracy, 0.2, 3);
  CHECK(plateau.metric == "accuracy");
  CHECK(plateau.best == 0.2);
}
