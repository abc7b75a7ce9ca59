#include "worker/training/step/trial.h"

#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <string>

namespace ddprun::training {
namespace {

constexpr std::int64_t kSamples = 2;

Batch zeros_of(const DataShape& data, std::int64_t samples) {
  Batch batch{{}, samples};
  for (const TensorShape& tensor : data.tensors) {
    std::vector<std::int64_t> sizes{samples};
    sizes.insert(sizes.end(), tensor.sizes.begin(), tensor.sizes.end());
    batch.tensors.push_back(at::zeros(sizes, tensor.dtype));
  }
  return batch;
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

/// What went wrong, without where: TorchScript has that before it, C++ behind it.
std::string essence(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const bool is_of_script = text.find("TorchScript interpreter") != std::string::npos;
  return is_of_script ? text.substr(text.find_last_of('\n') + 1) : text.substr(0, text.find('\n'));
}

/// Runs `part`; what libtorch or a plug-in throws comes out as a sentence that begins with `doing`.
void attempt(const std::string& doing, const std::function<void()>& part) {
  const auto refuse = [&](const std::string& why) -> Exception {
    return {ErrorCode::kConfig, fmt::format("{}: {}", doing, why)};
  };
  try {
    part();
  } catch (const Exception&) {
    throw;
  } catch (const c10::Error& error) {
    throw refuse(essence(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw refuse(essence(error.what()));
  }
}

/// The output for `batch`, which has to fit the data.
at::Tensor output_of(Model& model, const Batch& batch, const DataShape& data, const std::string& mode) {
  at::Tensor output;
  attempt(fmt::format("/model: it does not take \"{}\", {}{}", data.tensors.front().name,
                      describe(batch.tensors.front()), mode),
          [&] { output = model.forward(batch.tensors.front()); });
  const std::string gives =
      fmt::format("the model gives {} for {} samples{}", describe(output), kSamples, mode);
  if (!output.defined() || output.dim() == 0 || output.size(0) != kSamples)
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/model: {}; its first dimension is to be theirs", gives));
  if (data.classes > 0 && output.dim() > 1 && output.size(-1) != data.classes) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/model: {}, and the data has {} classes; its last dimension is to be these",
                                gives, data.classes));
  }
  return output;
}

at::Tensor loss_of(const Task& task, const at::Tensor& output, const Batch& batch, const std::string& mode) {
  at::Tensor loss;
  attempt(fmt::format("/task: it has no loss where the model gives {} for {} samples{}", describe(output),
                      kSamples, mode),
          [&] { loss = task.loss(output, batch); });
  return loss;
}

}  // namespace

void try_out(Model& model, const Task& task, const DataShape& data) {
  const Batch batch = zeros_of(data, kSamples);
  model.eval();
  loss_of(task, output_of(model, batch, data, ""), batch, "");
  model.train();
  const std::string mode = " in training mode";
  const at::Tensor loss = loss_of(task, output_of(model, batch, data, mode), batch, mode);
  if (loss.requires_grad()) return;
  throw Exception(ErrorCode::kConfig,
                  "/model: no gradient comes from its output in training mode, so it would learn nothing; it "
                  "may be detached");
}

std::string trouble_with_one_sample(Model& model, const DataShape& data) {
  const at::NoGradGuard no_grad;
  model.train();
  try {
    model.forward(zeros_of(data, 1).tensors.front());
  } catch (const Exception& exception) {
    return exception.what();
  } catch (const c10::Error& error) {
    return essence(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return essence(error.what());
  }
  return {};
}

}  // namespace ddprun::training
