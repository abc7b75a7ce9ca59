// What tests/interop/optim cannot ask Python: refusals, and what libtorch's own optimizers and our groups
// add.
#include "tests/support/catch.h"
#include <ddprun/averaged_model.h>
#include <ddprun/checkpoint.h>
#include <ddprun/clip_grad.h>
#include <ddprun/exception.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/lr_scheduler.h>
#include <ddprun/optim.h>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <array>
#include <cmath>

using namespace ddprun;

namespace {

at::Tensor a_parameter(double gradient = 1) {
  at::Tensor parameter = torch::zeros({2}, torch::requires_grad());
  parameter.mutable_grad() = torch::full({2}, gradient);
  return parameter;
}

FusedSgd an_optimizer() { return {{a_parameter()}, {.lr = 0.1, .momentum = 0.9}}; }

}  // namespace

TEST_CASE("a scheduler refuses parameters with its class, name, value and bound") {
  FusedSgd optimizer = an_optimizer();
  CHECK_THROWS_WITH(StepLR(optimizer, {.step_size = 0}), "StepLR: step_size is 0; it has to be at least 1");
  CHECK_THROWS_WITH(ConstantLR(optimizer, {.factor = 2}), "ConstantLR: factor is 2; it has to be in (0, 1]");
  CHECK_THROWS_WITH(LinearLR(optimizer, {.start_factor = 0}),
                    "LinearLR: start_factor is 0; it has to be in (0, 1]");
  CHECK_THROWS_WITH(CosineAnnealingLR(optimizer, {.T_max = 0}),
                    "CosineAnnealingLR: T_max is 0; it has to be at least 1");
  CHECK_THROWS_WITH(ReduceLROnPlateau(optimizer, {.factor = 1}),
                    "ReduceLROnPlateau: factor is 1; it has to be below 1");
  CHECK_THROWS_WITH(
      OneCycleLR(optimizer, {.max_lr = {0.1, 0.2}, .total_steps = 10}),
      "OneCycleLR: max_lr has 2 values for 1 parameter groups; give one value, or one per group");
}

TEST_CASE("one-cycle ends with its steps") {
  FusedSgd optimizer = an_optimizer();
  OneCycleLR scheduler(optimizer, {.max_lr = {0.1}, .total_steps = 10});
  for (int step = 0; step < 10; ++step) scheduler.step();
  CHECK_THROWS_WITH(scheduler.step(),
                    "OneCycleLR: step 11 of a schedule of 10 steps; total_steps is the number of all steps");
}

TEST_CASE("a sequence says which of its schedulers it cannot take") {
  FusedSgd optimizer = an_optimizer(), other = an_optimizer();
  ExponentialLR one(optimizer, {.gamma = 0.5}), two(optimizer, {.gamma = 0.5}),
      foreign(other, {.gamma = 0.5});
  ChainedScheduler chained({&two});
  CHECK_THROWS_WITH(SequentialLR(optimizer, {&one, &two}, {}),
                    "SequentialLR: 2 schedulers need 1 milestones, not 0");
  CHECK_THROWS_WITH(
      SequentialLR(optimizer, {&one, &foreign}, {3}),
      "SequentialLR: scheduler 1 (ExponentialLR) is of another optimizer; all have to be of the same");
  CHECK_THROWS_WITH(SequentialLR(optimizer, {&one, &chained}, {3}),
                    "SequentialLR: scheduler 1 is a ChainedScheduler, which can only be the first");
}

TEST_CASE("schedulers move the groups of an optimizer of libtorch") {
  torch::optim::SGD stock({a_parameter()}, torch::optim::SGDOptions(0.5).momentum(0.9));
  StockGroups groups(stock);
  ExponentialLR scheduler(groups, {.gamma = 0.5});
  scheduler.step();
  CHECK(static_cast<torch::optim::SGDOptions&>(stock.param_groups()[0].options()).lr() == 0.25);
  CHECK(groups.momentum(0) == 0.9);
  CHECK(groups.entry(0, "initial_lr") == 0.5);
}

TEST_CASE("a parameter is in one group only, and a tied one counts once") {
  const at::Tensor tied = a_parameter(), other = a_parameter();
  CHECK(FusedSgd({tied, other, tied}, {}).parameters().size() == 2);
  CHECK_THROWS_WITH(
      FusedSgd(FusedSgd::Groups{{{tied}, {}}, {{other, tied}, {}}}),
      "optimizer: group 1 has a parameter of shape [2] that is in an earlier group; each may be in one "
      "group only");
}

TEST_CASE("each group is stepped with its own options") {
  const at::Tensor slow = a_parameter(), fast = a_parameter();
  FusedSgd optimizer(FusedSgd::Groups{{{slow}, {.lr = 0.25}}, {{fast}, {.lr = 0.5}}});
  optimizer.step();
  CHECK(slow[0].item<float>() == -0.25F);
  CHECK(fast[0].item<float>() == -0.5F);
}

// Python's fused SGD steps from uninitialised memory here.
TEST_CASE("an overflow in the first step leaves no trace in the momentum") {
  const double dampening = GENERATE(0.0, 0.5);
  const at::Tensor parameter = a_parameter(INFINITY), twin = a_parameter();
  const FusedSgdOptions options{.lr = 0.5, .momentum = 0.5, .dampening = dampening};
  FusedSgd scaled({parameter}, options), plain({twin}, options);
  GradScaler scaler({.init_scale = 2});
  const auto step = [&] {
    (void)scaler.scale(torch::ones({}));
    scaler.step(scaled);
    scaler.update();
  };
  step();
  CHECK(parameter[0].item<float>() == 0);
  for (int i = 0; i < 2; ++i) {
    parameter.mutable_grad() = torch::full({2}, scaler.get_scale());
    twin.mutable_grad() = torch::ones({2});
    step();
    plain.step();
  }
  CHECK(torch::equal(parameter, twin));
}

TEST_CASE("a scaler says what to call first") {
  FusedSgd optimizer = an_optimizer();
  GradScaler scaler;
  CHECK_THROWS_WITH(scaler.step(optimizer),
                    "GradScaler: step() before anything was scaled; call scale(loss).backward() first");
  (void)scaler.scale(torch::ones({}));
  CHECK_THROWS_WITH(scaler.update(), "GradScaler: update() before a step(); call step(optimizer) first");
  scaler.unscale_(optimizer);
  CHECK_THROWS_WITH(scaler.unscale_(optimizer),
                    "GradScaler: unscale_() of this optimizer was called already; call update() first");
  scaler.step(optimizer);
  CHECK_THROWS_WITH(scaler.step(optimizer),
                    "GradScaler: step() of this optimizer was called already; call update() first");
  optimizer.zero_grad();
  scaler.update();
  CHECK_THROWS_WITH(
      scaler.step(optimizer),
      "GradScaler: step() of an optimizer without gradients; call scale(loss).backward() first");
  CHECK_THROWS_WITH(GradScaler({.growth_factor = 1}), "GradScaler: growth_factor is 1; it has to be above 1");
}

TEST_CASE("a scaler leaves out the step of an optimizer of libtorch") {
  const at::Tensor parameter = a_parameter(INFINITY);
  torch::optim::SGD stock({parameter}, torch::optim::SGDOptions(0.5));
  GradScaler scaler;
  (void)scaler.scale(torch::ones({}));
  scaler.step(stock);
  scaler.update();
  CHECK(parameter[0].item<float>() == 0);
  CHECK(scaler.get_scale() == 32768);
}

TEST_CASE("a scaler that is not enabled does nothing") {
  const at::Tensor parameter = a_parameter();
  FusedSgd optimizer({parameter}, {.lr = 0.5});
  GradScaler scaler({.enabled = false});
  CHECK(scaler.scale(torch::ones({})).item<float>() == 1);
  scaler.step(optimizer);
  scaler.update();
  CHECK(parameter[0].item<float>() == -0.5F);
  CHECK(scaler.get_scale() == 1);
}

TEST_CASE("a scaler's scale does not reach a sparse table, and neither does an overflow") {
  const auto [table_gradient, is_unscaled] =
      GENERATE(table<double, bool>({{1, false}, {1, true}, {INFINITY, false}, {INFINITY, true}}));
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  FusedSgd optimizer(table->parameters(), {.lr = 1});
  GradScaler scaler;
  const at::Tensor before = table->weight.detach().clone();
  scaler.scale((table(torch::tensor({1})) * table_gradient).sum()).backward();
  if (is_unscaled) scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  at::Tensor expected = before.clone();
  if (std::isfinite(table_gradient)) expected[1] -= 1;
  CHECK(torch::equal(table->weight.detach(), expected));
  CHECK(scaler.get_scale() == (std::isfinite(table_gradient) ? 65536 : 32768));
}

TEST_CASE("options that want state which the first step did not make are refused") {
  FusedAdam adam({a_parameter()}, {.lr = 0.1});
  adam.step();
  adam.options().amsgrad = true;
  CHECK_THROWS_WITH(
      adam.step(),
      "optimizer: parameter 0 of Adam has no \"max_exp_avg_sq\", which its options did not want "
      "in its first step and want now; set them before the first step");
  Rmsprop rmsprop({a_parameter()}, {.lr = 0.1});
  rmsprop.step();
  rmsprop.set_momentum(0, 0.9);
  CHECK_THROWS_WITH(
      rmsprop.step(),
      "optimizer: parameter 0 of RMSprop has no \"momentum_buffer\", which its options did not want "
      "in its first step and want now; set them before the first step");
}

TEST_CASE("options that want less state than there is find the right one") {
  const at::Tensor changed = a_parameter(), plain = a_parameter();
  Rmsprop optimizer({changed}, {.lr = 0.1, .momentum = 0.9, .centered = true});
  Rmsprop twin({plain}, {.lr = 0.1, .centered = true});
  optimizer.step();
  twin.step();
  plain.detach().copy_(changed.detach());
  optimizer.set_momentum(0, 0);
  changed.mutable_grad() = plain.mutable_grad() = torch::full({2}, 3.0);
  optimizer.step();
  twin.step();
  CHECK(torch::equal(changed, plain));
}

// libtorch's parameters() has tied weights twice, Python's once.
TEST_CASE("a tied parameter is clipped once, and counts once in the norm") {
  const at::Tensor tied = a_parameter(3), other = a_parameter(4);
  const std::vector<at::Tensor> twice = {tied, other, tied};
  CHECK(clip_grad_norm_(twice, 1).item<float>() == Approx(std::sqrt(50.0)));
  CHECK(tied.grad()[0].item<float>() == Approx(3 / std::sqrt(50.0)));
  CHECK(other.grad()[0].item<float>() == Approx(4 / std::sqrt(50.0)));
  clip_grads_with_norm_(twice, 1, torch::full({}, 2.0));
  CHECK(tied.grad()[0].item<float>() == Approx(1.5 / std::sqrt(50.0)));
}

TEST_CASE("a scaler divides the gradient of a tied parameter once") {
  const at::Tensor tied = a_parameter(8);
  torch::optim::SGD stock(std::vector<at::Tensor>{tied, tied}, torch::optim::SGDOptions(0.5));
  GradScaler scaler({.init_scale = 4});
  (void)scaler.scale(torch::ones({}));
  scaler.unscale_(stock);
  CHECK(tied.grad()[0].item<float>() == 2);
}

// What torch.optim and libtorch's classes refuse.
TEST_CASE("options that no optimizer can have are refused with class, group, name, value and bound") {
  const auto sgd = [](const FusedSgdOptions& options) { FusedSgd({a_parameter()}, options); };
  CHECK_THROWS_WITH(sgd({.lr = -1}), "SGD: lr of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(sgd({.lr = NAN}), "SGD: lr of group 0 is nan; it has to be at least 0");
  CHECK_THROWS_WITH(sgd({.momentum = -0.5}), "SGD: momentum of group 0 is -0.5; it has to be at least 0");
  CHECK_THROWS_WITH(sgd({.weight_decay = -2}), "SGD: weight_decay of group 0 is -2; it has to be at least 0");
  const auto adam = [](const FusedAdamOptions& options) { FusedAdam({a_parameter()}, options); };
  CHECK_THROWS_WITH(adam({.lr = -1}), "Adam: lr of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adam({.beta1 = 1}), "Adam: beta1 of group 0 is 1; it has to be in [0, 1)");
  CHECK_THROWS_WITH(adam({.beta2 = -0.5}), "Adam: beta2 of group 0 is -0.5; it has to be in [0, 1)");
  CHECK_THROWS_WITH(adam({.eps = -1}), "Adam: eps of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adam({.weight_decay = -1, .decoupled_weight_decay = true}),
                    "AdamW: weight_decay of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(FusedAdam(FusedAdam::Groups{{{a_parameter()}, {}}, {{a_parameter()}, {.beta2 = 1.5}}}),
                    "Adam: beta2 of group 1 is 1.5; it has to be in [0, 1)");
  const auto adagrad = [](const FusedAdagradOptions& options) { FusedAdagrad({a_parameter()}, options); };
  CHECK_THROWS_WITH(adagrad({.lr = -1}), "Adagrad: lr of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adagrad({.lr_decay = -1}), "Adagrad: lr_decay of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adagrad({.weight_decay = -1}),
                    "Adagrad: weight_decay of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adagrad({.initial_accumulator_value = -1}),
                    "Adagrad: initial_accumulator_value of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(adagrad({.eps = -1}), "Adagrad: eps of group 0 is -1; it has to be at least 0");
  const auto rmsprop = [](const RmspropOptions& options) { Rmsprop({a_parameter()}, options); };
  CHECK_THROWS_WITH(rmsprop({.lr = -1}), "RMSprop: lr of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(rmsprop({.momentum = -1}), "RMSprop: momentum of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(rmsprop({.alpha = -1}), "RMSprop: alpha of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(rmsprop({.eps = -1}), "RMSprop: eps of group 0 is -1; it has to be at least 0");
  CHECK_THROWS_WITH(rmsprop({.weight_decay = -1}),
                    "RMSprop: weight_decay of group 0 is -1; it has to be at least 0");
}

TEST_CASE("an optimizer refuses tensors that it would never train") {
  const at::Tensor computed = a_parameter() * 2;
  CHECK_THROWS_WITH(
      FusedSgd({a_parameter(), computed}, {}),
      "optimizer: group 0 has a tensor of shape [2] that is computed from others, and its gradient goes to "
      "them; give the parameters themselves");
  CHECK_THROWS_WITH(FusedSgd({at::Tensor()}, {}), "optimizer: group 0 has a tensor that is not defined");
  const at::Tensor kept = a_parameter() * 2;
  kept.retain_grad();
  CHECK(FusedSgd({kept, torch::zeros({2})}, {}).parameters().size() == 2);
}

TEST_CASE("gradients on the CPU that need no clipping are not written") {
  at::Tensor parameter = at::zeros({4}).requires_grad_();
  parameter.mutable_grad() = at::full({4}, 2.0);
  const auto version = parameter.grad()._version();
  CHECK(clip_grad_norm_({parameter}, 5).item<float>() == 4);
  CHECK(parameter.grad()._version() == version);
  CHECK(clip_grad_norm_({parameter}, 1).item<float>() == 4);
  CHECK(parameter.grad()._version() > version);
  CHECK(parameter.grad()[0].item<float>() == Approx(0.5));
}

TEST_CASE("a norm that is not finite is an error on request, and leaves the gradients") {
  const auto parameter = a_parameter();
  parameter.mutable_grad() = torch::full_like(parameter, INFINITY);
  CHECK_THROWS_WITH(
      clip_grad_norm_({parameter}, 1, 2, true),
      "the norm of order 2 of 1 gradients is inf, to which none can be clipped; lower the learning "
      "rate, or go on with error_if_nonfinite = false");
  CHECK(parameter.grad().isinf().all().item<bool>());
  clip_grad_norm_({parameter}, 1);
  CHECK(parameter.grad().isnan().all().item<bool>());
}

TEST_CASE("clipping refuses a bound that is none") {
  CHECK_THROWS_WITH(clip_grad_norm_({a_parameter()}, -1),
                    "clip_grad_norm_: max_norm is -1; it has to be at least 0");
  CHECK_THROWS_WITH(clip_grad_value_({a_parameter()}, NAN),
                    "clip_grad_value_: clip_value is nan; it has to be at least 0");
  CHECK(clip_grad_norm_({}, 1).item<float>() == 0);
}

TEST_CASE("an average is of a model with the same tensors") {
  AveragedModel average(std::make_shared<torch::nn::LinearImpl>(2, 3));
  CHECK_THROWS_WITH(
      average.update_parameters(torch::nn::LinearImpl(2, 4)),
      "AveragedModel: the model has 2 averaged tensors, the average 2, or they differ in shape; make the "
      "average of the same class and options");
  CHECK_THROWS_WITH(AveragedModel(std::make_shared<torch::nn::LinearImpl>(2, 3), {.decay = 1.5}),
                    "AveragedModel: the decay is 1.5; it has to be in [0, 1]");
}

namespace {

at::Tensor a_complex_parameter() {
  return at::view_as_complex(torch::tensor({{1.F, 2.F}, {-0.5F, 0.25F}})).requires_grad_(true);
}

/// The bits depend on the processor's vectors and on libtorch's square root: those of the pairs are the measure.
/// Adagrad takes pairs alone through its fused kernel, whose last bit is another on some processors, in Python as well.
void check_equal(const at::Tensor& of_complex, const at::Tensor& of_pairs, double tolerance) {
  REQUIRE(of_complex.scalar_type() == at::kComplexFloat);
  CHECK(at::allclose(at::view_as_real(of_complex.detach()), of_pairs.detach(), 0, tolerance));
}

/// Three steps, with the gradients 0.5-i and 2+0.75i, twice and three times these, end where those of the pairs do,
/// with the same state, and near what Python has then.
template <class Optimizer, class Options>
void check_pairs(const Options& options, const std::vector<float>& python, double tolerance = 0) {
  at::Tensor complex = a_complex_parameter();
  at::Tensor pairs = at::view_as_real(complex.detach()).clone().requires_grad_(true);
  Optimizer of_complex({complex}, options), of_pairs({pairs}, options);
  const at::Tensor gradient = torch::tensor({{0.5F, -1.F}, {2.F, 0.75F}});
  for (int step = 1; step <= 3; ++step) {
    complex.mutable_grad() = at::view_as_complex(gradient * step);
    pairs.mutable_grad() = gradient * step;
    of_complex.step();
    of_pairs.step();
  }
  check_equal(complex, pairs, tolerance);
  CHECK(pairs.detach().flatten().allclose(torch::tensor(python), 1e-5, 1e-7));
  const auto state = of_complex.state().at(0), state_of_pairs = of_pairs.state().at(0);
  REQUIRE(state.size() == state_of_pairs.size());
  for (std::size_t i = 1; i < state.size(); ++i)
    check_equal(state[i].second, state_of_pairs[i].second, tolerance);  // 0: "step"
}

}  // namespace

// The numbers are torch.optim.RMSprop's and torch.optim.Adagrad's of PyTorch 2.11 on a CPU.
TEST_CASE("RMSprop takes complex parameters for pairs of real numbers, as Python's does") {
  check_pairs<Rmsprop>(RmspropOptions{.lr = 0.01},
                       {0x1.75d1eep-1F, 0x1.228b84p+1F, -0x1.8a2e12p-1F, -0x1.45c24p-6F});
}

TEST_CASE("so does a centered RMSprop with momentum, decay and maximize") {
  check_pairs<Rmsprop>(
      RmspropOptions{.lr = 0.01, .momentum = 0.9, .centered = true, .weight_decay = 0.1, .maximize = true},
      {0x1.87af48p+0F, 0x1.7abda4p+0F, 0x1.93df94p-6F, 0x1.8d3686p-1F});
}

TEST_CASE("Adagrad takes complex parameters for pairs of real numbers, as Python's does") {
  check_pairs<FusedAdagrad>(
      FusedAdagradOptions{.lr = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.25},
      {0x1.87f62ap-1F, 0x1.2087b8p+1F, -0x1.883a8ep-1F, 0x1.f512p-10F}, 1e-6);
}

TEST_CASE(
    "a conjugate view is refused as a parameter, which would never be updated, and taken as a gradient") {
  at::Tensor conjugate = a_complex_parameter().detach().conj().requires_grad_(true);
  conjugate.mutable_grad() = torch::ones_like(conjugate);
  Rmsprop rmsprop({a_parameter(), conjugate}, {});
  CHECK_THROWS_WITH(
      rmsprop.step(),
      "optimizer: parameter 1 of RMSprop is a conjugate view, which cannot be taken for pairs of "
      "real numbers in its own memory; give resolve_conj() of it");
  FusedAdagrad adagrad({conjugate}, {});
  CHECK_THROWS_WITH(
      adagrad.step(),
      "optimizer: parameter 0 of Adagrad is a conjugate view, which cannot be taken for pairs of "
      "real numbers in its own memory; give resolve_conj() of it");
  at::Tensor plain = a_complex_parameter(), other = a_complex_parameter();
  Rmsprop of_plain({plain}, {}), of_other({other}, {});
  const at::Tensor gradient = at::view_as_complex(torch::tensor({{0.5F, -1.F}, {2.F, 0.75F}}));
  plain.mutable_grad() = gradient;
  other.mutable_grad() = gradient.conj().resolve_conj().conj();
  of_plain.step();
  of_other.step();
  CHECK(plain.equal(other));
}

TEST_CASE("an optimizer state of which a part is damaged changes nothing") {
  FusedAdam optimizer({a_parameter()}, {.lr = 0.1});
  const OneCycleLR schedule(optimizer, {.max_lr = {1.0}, .total_steps = 10});
  optimizer.step();
  const auto damaged_with = [&](const char* name, const PtValue& value) {
    PtDict state = state_dict(optimizer);
    PtDict group = state.at("param_groups").as_sequence()[0].as_dict();
    group.set("lr", 0.77);
    group.set(name, value);
    state.set("state", PtDict{});
    state.set("param_groups", PtList{{group}});
    return state;
  };
  const double rate = optimizer.learning_rate();
  const std::array<std::pair<const char*, PtValue>, 3> damages{
      {{"betas", PtTuple{}}, {"betas", "none"}, {"max_lr", "none"}}};
  for (const auto& [name, value] : damages) {
    try {
      load_state_dict(optimizer, damaged_with(name, value));
      FAIL("it was taken");
    } catch (const Exception& exception) {
      CHECK(exception.code() == ErrorCode::kCorrupt);
    }
    CHECK(optimizer.learning_rate() == rate);
    CHECK(optimizer.state()[0].size() == 3);
  }
}
