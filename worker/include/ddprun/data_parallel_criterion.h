#pragma once

#include <ddprun/data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace ddprun {

struct DataParallelCriterionOptions {
  /// How the losses of the pieces make the loss of the batch.
  enum class Reduction {
    kMean,  ///< weighted by the lengths of the pieces: for a criterion that is a mean over samples
    kSum,   ///< added: for a criterion that is a sum over samples
  };
  Reduction reduction = Reduction::kMean;
  /// Where the loss goes. Unset: the first device of the outputs.
  std::optional<at::Device> output_device;
  /// The dimension of the batch in the targets.
  std::int64_t dim = 0;
};

/// The balanced form of DataParallel: the loss is computed on each device from that device's outputs, and
/// only numbers travel to the output device, which otherwise has to hold all outputs.
///
///     ddprun::DataParallelCriterion criterion{torch::nn::CrossEntropyLoss()};
///     criterion(parallel.forward_scattered(input), target).backward();
///
/// The loss equals the criterion's on the whole batch if that is a mean (or sum) over samples; one that
/// divides by something else than their number (class weights, ignored targets) is averaged piece by piece.
///
/// Criterion  a module, of which each device gets a replica, or a callable (output, targets…) → loss, which
///            several threads call at once.
/// Shapes     targets are cut as DataParallel cuts inputs and must be as long. The loss has no dimensions.
/// Errors     Exception kConfig: targets that do not fit the outputs, a loss with dimensions. What a
///            criterion throws comes out as in DataParallel.
template <class Criterion>
class DataParallelCriterion {
 public:
  using Reduction = DataParallelCriterionOptions::Reduction;

  explicit DataParallelCriterion(Criterion criterion, DataParallelCriterionOptions options = {})
      : options_(options), replicas_(std::move(criterion), {}, kName), threads_(kName) {}

  template <class Output, class... Targets>
  at::Tensor forward(const Scattered<Output>& scattered, const Targets&... targets) {
    const std::vector<at::Device>& devices = scattered.devices;
    runtime::Cut cut(kName, options_.dim, devices.size());
    std::tuple<Targets...> whole(targets...);
    visit_tensors(whole, [&](at::Tensor& tensor) { cut.see(tensor); });
    cut.expect_pieces(devices.size());
    std::vector<Output> outputs = scattered.outputs;
    std::vector<std::tuple<Targets...>> pieces(devices.size(), whole);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      visit_tensors(pieces[i], [&](at::Tensor& tensor) { tensor = cut.piece(tensor, i, devices[i]); });
    }
    const std::vector<Criterion*> criteria = criteria_for(devices);
    std::vector<at::Tensor> losses(devices.size());
    threads_.run(devices, [&](std::size_t i) {
      losses[i] = std::apply(
          [&](auto&... mine) { return runtime::call_forward(*criteria[i], outputs[i], mine...); }, pieces[i]);
    });
    const at::Device home = options_.output_device.value_or(devices.front());
    return runtime::join_losses(losses, cut, options_.reduction == Reduction::kMean, home);
  }

  template <class Output, class... Targets>
  at::Tensor operator()(const Scattered<Output>& scattered, const Targets&... targets) {
    return forward(scattered, targets...);
  }

 private:
  static constexpr const char* kName = "DataParallelCriterion";

  std::vector<Criterion*> criteria_for(const std::vector<at::Device>& devices) {
    if constexpr (runtime::holds_a_module<Criterion>()) {
      return replicas_.get(devices);
    } else {
      return std::vector<Criterion*>(devices.size(), &replicas_.module());
    }
  }

  DataParallelCriterionOptions options_;
  runtime::Replicas<Criterion> replicas_;
  runtime::ReplicaThreads threads_;
};

}  // namespace ddprun
