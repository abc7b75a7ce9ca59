// A model, a data source and a task for job files, in a library of their own:
//
//     ddprun --nproc-per-node 2 plugin.json
#include <ddprun/trainer/plugin.h>

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace {

/// y = sum of the inputs, for inputs that follow from the index.
class Sums final : public ddprun::DataSource {
 public:
  Sums(std::int64_t count, std::int64_t width) : count_(count), width_(width) {
    shape_.tensors = {{"numbers", {width}, at::kFloat}, {"sum", {1}, at::kFloat}};
  }
  std::int64_t size() const override { return count_; }
  const ddprun::DataShape& shape() const override { return shape_; }

  ddprun::Batch make_batch(const ddprun::BatchRequest& request) const override {
    const auto samples = static_cast<std::int64_t>(request.indices.size());
    const at::Tensor indices =
        at::tensor(std::vector<std::int64_t>(request.indices.begin(), request.indices.end()));
    const at::Tensor numbers = at::sin(indices.unsqueeze(1) * at::arange(1, width_ + 1)).to(at::kFloat);
    return {{numbers, numbers.sum(1, /*keepdim=*/true)}, samples};
  }

 private:
  std::int64_t count_, width_;
  ddprun::DataShape shape_;
};

ddprun::DataSplits make_sums(const ddprun::Options& options, std::uint64_t /*seed*/) {
  const std::int64_t width = options.integer("width", 4);
  return {std::make_shared<Sums>(options.integer("count", 1024), width), std::make_shared<Sums>(64, width)};
}

class OneLayer final : public ddprun::Model {
 public:
  explicit OneLayer(std::int64_t inputs) : layer_(register_module("layer", torch::nn::Linear(inputs, 1))) {}
  at::Tensor forward(at::Tensor input) override { return layer_->forward(input); }

 private:
  torch::nn::Linear layer_;
};

std::shared_ptr<ddprun::Model> make_one_layer(const ddprun::Options& /*options*/,
                                              const ddprun::DataShape& data) {
  return std::make_shared<OneLayer>(data.tensors[0].sizes[0]);
}

/// Mean absolute error, times a weight.
class AbsoluteError final : public ddprun::Task {
 public:
  explicit AbsoluteError(double weight) : weight_(weight) {}
  at::Tensor loss(const at::Tensor& output, const ddprun::Batch& batch) const override {
    return weight_ * at::l1_loss(output, batch.tensors[1]);
  }
  std::vector<ddprun::Metric> metrics() const override { return {{.name = "loss"}}; }
  at::Tensor sums(const at::Tensor& output, const ddprun::Batch& batch) const override {
    return weight_ * at::l1_loss(output, batch.tensors[1], at::Reduction::Sum).to(at::kDouble).unsqueeze(0);
  }

 private:
  double weight_;
};

std::unique_ptr<ddprun::Task> make_absolute_error(const ddprun::Options& options,
                                                  const ddprun::DataShape& /*data*/) {
  return std::make_unique<AbsoluteError>(options.number("weight", 1));
}

}  // namespace

DDPRUN_REGISTER_DATA("sums", make_sums)
DDPRUN_REGISTER_MODEL("one_layer", make_one_layer)
DDPRUN_REGISTER_TASK("absolute_error", make_absolute_error)
