#include "worker/data/table.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ops/empty.h>

#include <cmath>
#include <numbers>
#include <random>

namespace ddprun::data {
namespace {

constexpr std::int64_t kTrainSpirals = 2000;
constexpr std::int64_t kTestSpirals = 500;
constexpr double kTurnsOfArm = 1.5;
constexpr double kNoise = 0.02;

// Only the engine's raw numbers are used: std::uniform_… differs between standard libraries.
double draw_share(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11U) * 0x1p-53; }

/// Points in [-1, 1]² on two arms that wind around each other.
Table make_spirals(std::int64_t count, std::mt19937_64& engine) {
  Table table{at::empty({count, 2}, at::kDouble), at::empty({count}, at::kDouble)};
  auto* feature = table.features.mutable_data_ptr<double>();
  auto* target = table.targets.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto arm = static_cast<double>(engine() & 1U);
    const double along = std::sqrt(draw_share(engine));
    const double angle = 2 * std::numbers::pi * (kTurnsOfArm * along + arm / 2);
    for (const double place : {along * std::cos(angle), along * std::sin(angle)})
      *feature++ = place + kNoise * (2 * draw_share(engine) - 1);
    *target++ = arm;
  }
  return table;
}

DataSplits open_spirals(const Options& options, std::uint64_t seed) {
  const auto count = [&](const char* key, std::int64_t fallback) {
    const std::int64_t asked = options.integer(key);
    return asked > 0 ? asked : fallback;
  };
  // Each its own, so that more of one are no others of the other.
  std::mt19937_64 train_engine(seed);
  std::mt19937_64 test_engine(~seed);
  Table train = make_spirals(count("train_samples", kTrainSpirals), train_engine);
  Table held_out = make_spirals(count("test_samples", kTestSpirals), test_engine);
  constexpr std::int64_t kArms = 2;
  return {std::make_shared<TableSource>(std::move(train), kArms, "spirals"),
          std::make_shared<TableSource>(std::move(held_out), kArms, "spirals")};
}

}  // namespace

void register_spirals(DataRegistry& sources) {
  sources.add("spirals",
              "two spirals of points in the plane, made from the seed: what a linear model cannot tell apart",
              open_spirals);
}

}  // namespace ddprun::data
