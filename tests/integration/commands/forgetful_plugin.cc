// A model that a resume does not bring back: how often it has been called is in no checkpoint.
#include <ddprun/trainer/plugin.h>

#include <torch/nn/modules/linear.h>

namespace {

class Forgetful final : public ddprun::Model {
 public:
  explicit Forgetful(const ddprun::DataShape& data)
      : linear_(register_module(
            "linear", torch::nn::Linear(c10::multiply_integers(data.tensors[0].sizes), data.classes))) {}

  at::Tensor forward(at::Tensor input) override {
    if (is_training()) ++calls_;
    return linear_->forward(input.flatten(1)) * (1 + 0.01 * static_cast<double>(calls_));
  }

 private:
  torch::nn::Linear linear_;
  std::int64_t calls_ = 0;
};

/// Its forward holds for batches of one size only.
class Rigid final : public ddprun::Model {
 public:
  explicit Rigid(const ddprun::DataShape& data)
      : width_(c10::multiply_integers(data.tensors[0].sizes)),
        linear_(register_module("linear", torch::nn::Linear(width_, data.classes))) {}

  at::Tensor forward(at::Tensor input) override {
    return linear_->forward(input.view({input.size(0), width_}));
  }

 private:
  std::int64_t width_;
  torch::nn::Linear linear_;
};

std::shared_ptr<ddprun::Model> make_forgetful(const ddprun::Options&, const ddprun::DataShape& data) {
  return std::make_shared<Forgetful>(data);
}
std::shared_ptr<ddprun::Model> make_rigid(const ddprun::Options&, const ddprun::DataShape& data) {
  return std::make_shared<Rigid>(data);
}

DDPRUN_REGISTER_MODEL("forgetful", make_forgetful)
DDPRUN_REGISTER_MODEL("rigid", make_rigid)

}  // namespace
