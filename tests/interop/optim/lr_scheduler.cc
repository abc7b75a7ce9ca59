// Reads schedules, one JSON object a line, runs each, and prints after construction and after every step the
// bits of rate and momentum of every group. "load" names a .pt file to begin from, "save" one to write after
// step "save_at".
#include <ddprun/checkpoint.h>
#include <ddprun/lr_scheduler.h>
#include <ddprun/optim.h>
#include <ddprun/pt_file.h>

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <bit>
#include <cstdio>
#include <iostream>
#include <memory>

namespace ddprun {
namespace {

using nlohmann::json;

// One scheduler and the parts that it refers to.
struct Made {
  std::vector<std::unique_ptr<LRScheduler>> all;
  std::unique_ptr<ReduceLROnPlateau> plateau;
};

LRScheduler* make(Made& made, ScheduledGroups& groups, const json& spec);

std::vector<LRScheduler*> make_parts(Made& made, ScheduledGroups& groups, const json& spec) {
  std::vector<LRScheduler*> parts;
  for (const json& part : spec.at("schedulers")) parts.push_back(make(made, groups, part));
  return parts;
}

std::unique_ptr<LRScheduler> make_one(Made& made, ScheduledGroups& groups, const json& spec) {
  const std::string name = spec.at("class");
  const auto d = [&](const char* key) { return spec.at(key).get<double>(); };
  const auto i = [&](const char* key) { return spec.at(key).get<std::int64_t>(); };
  const auto list = [&](const char* key) { return spec.at(key).get<std::vector<double>>(); };
  if (name == "LambdaLR")
    return std::make_unique<LambdaLR>(
        groups, [](std::int64_t e) { return 1.0 / (1.0 + 0.3 * static_cast<double>(e)); });
  if (name == "MultiplicativeLR")
    return std::make_unique<MultiplicativeLR>(groups, [](std::int64_t e) { return e % 3 == 0 ? 0.9 : 1.01; });
  if (name == "StepLR") return std::make_unique<StepLR>(groups, StepLROptions{i("step_size"), d("gamma")});
  if (name == "MultiStepLR") {
    return std::make_unique<MultiStepLR>(
        groups, MultiStepLROptions{spec.at("milestones").get<std::vector<std::int64_t>>(), d("gamma")});
  }
  if (name == "ConstantLR")
    return std::make_unique<ConstantLR>(groups, ConstantLROptions{d("factor"), i("total_iters")});
  if (name == "LinearLR") {
    return std::make_unique<LinearLR>(groups,
                                      LinearLROptions{d("start_factor"), d("end_factor"), i("total_iters")});
  }
  if (name == "ExponentialLR")
    return std::make_unique<ExponentialLR>(groups, ExponentialLROptions{d("gamma")});
  if (name == "PolynomialLR")
    return std::make_unique<PolynomialLR>(groups, PolynomialLROptions{i("total_iters"), d("power")});
  if (name == "CosineAnnealingLR") {
    return std::make_unique<CosineAnnealingLR>(groups, CosineAnnealingLROptions{i("T_max"), d("eta_min")});
  }
  if (name == "CosineAnnealingWarmRestarts") {
    return std::make_unique<CosineAnnealingWarmRestarts>(
        groups, CosineAnnealingWarmRestartsOptions{i("T_0"), i("T_mult"), d("eta_min")});
  }
  if (name == "OneCycleLR") {
    return std::make_unique<OneCycleLR>(
        groups,
        OneCycleLROptions{.max_lr = list("max_lr"),
                          .total_steps = i("total_steps"),
                          .pct_start = d("pct_start"),
                          .anneal_strategy = spec.at("anneal_strategy") == "cos" ? AnnealStrategy::kCos
                                                                                 : AnnealStrategy::kLinear,
                          .cycle_momentum = spec.at("cycle_momentum").get<bool>(),
                          .div_factor = d("div_factor"),
                          .final_div_factor = d("final_div_factor"),
                          .three_phase = spec.at("three_phase").get<bool>()});
  }
  if (name == "SequentialLR") {
    auto parts = make_parts(made, groups, spec);
    return std::make_unique<SequentialLR>(groups, parts,
                                          spec.at("milestones").get<std::vector<std::int64_t>>());
  }
  return std::make_unique<ChainedScheduler>(make_parts(made, groups, spec));
}

LRScheduler* make(Made& made, ScheduledGroups& groups, const json& spec) {
  auto one = make_one(made, groups, spec);
  made.all.push_back(std::move(one));
  return made.all.back().get();
}

void make_plateau(Made& made, ScheduledGroups& groups, const json& spec) {
  using Options = ReduceLROnPlateauOptions;
  Options options;
  options.mode = spec.at("mode") == "min" ? Options::Mode::kMin : Options::Mode::kMax;
  options.threshold_mode =
      spec.at("threshold_mode") == "rel" ? Options::ThresholdMode::kRel : Options::ThresholdMode::kAbs;
  options.factor = spec.at("factor");
  options.patience = spec.at("patience");
  options.threshold = spec.at("threshold");
  options.cooldown = spec.at("cooldown");
  options.min_lr = spec.at("min_lr").get<std::vector<double>>();
  made.plateau = std::make_unique<ReduceLROnPlateau>(groups, options);
}

std::vector<at::Tensor> a_parameter() { return {torch::zeros({2}, torch::requires_grad())}; }

std::unique_ptr<FusedOptimizer> make_optimizer(const json& spec) {
  const std::vector<double> rates = spec.at("lrs");
  if (spec.at("optimizer") == "sgd") {
    FusedSgd::Groups groups;
    for (const double lr : rates) groups.push_back({a_parameter(), {.lr = lr, .momentum = 0.9}});
    return std::make_unique<FusedSgd>(std::move(groups));
  }
  FusedAdam::Groups groups;
  for (const double lr : rates) groups.push_back({a_parameter(), {.lr = lr}});
  return std::make_unique<FusedAdam>(std::move(groups));
}

void print(const ScheduledGroups& groups) {
  for (std::size_t i = 0; i < groups.group_count(); ++i) {
    for (const double value : {groups.learning_rate(i), groups.momentum(i).value()}) {
      std::printf("%016llx ", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
    }
  }
  std::printf("/ ");
}

void run(const json& spec) {
  const auto optimizer = make_optimizer(spec);
  Made made;
  LRScheduler* scheduler = nullptr;
  if (spec.at("scheduler").at("class") == "ReduceLROnPlateau") {
    make_plateau(made, *optimizer, spec.at("scheduler"));
  } else {
    scheduler = make(made, *optimizer, spec.at("scheduler"));
  }
  if (spec.contains("load")) {
    const PtValue file = load_pt(spec.at("load"));
    load_state_dict(*optimizer, file.as_dict().at("optimizer").as_dict());
    const PtDict& state = file.as_dict().at("scheduler").as_dict();
    scheduler != nullptr ? load_state_dict(*scheduler, state) : load_state_dict(*made.plateau, state);
  }
  print(*optimizer);
  const std::int64_t steps = spec.at("steps"), first = spec.value("first", 0),
                     save_at = spec.value("save_at", -1);
  for (std::int64_t step = first; step < steps; ++step) {
    scheduler != nullptr ? scheduler->step()
                         : made.plateau->step(spec.at("metrics").at(static_cast<std::size_t>(step)));
    print(*optimizer);
    if (step + 1 != save_at) continue;
    PtDict file;
    file.set("optimizer", state_dict(*optimizer));
    file.set("scheduler", scheduler != nullptr ? state_dict(*scheduler) : state_dict(*made.plateau));
    save_pt(spec.at("save"), file);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace ddprun

int main() try {
  for (std::string line; std::getline(std::cin, line);) ddprun::run(nlohmann::json::parse(line));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "interop_lr_scheduler: %s\n", error.what());
  return 1;
}
