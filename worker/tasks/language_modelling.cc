#include "worker/tasks/language_modelling.h"

#include <ddprun/exception.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace ddprun::tasks {
namespace {

at::Tensor cross_entropy(const at::Tensor& output, const Batch& batch, at::Reduction::Reduction reduction) {
  return at::cross_entropy_loss(output.flatten(0, 1), batch.tensors[1].flatten(), {}, reduction);
}

}  // namespace

at::Tensor LanguageModelling::loss(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy(output, batch, at::Reduction::Mean);
}

std::int64_t LanguageModelling::items(const Batch& batch) const { return batch.tensors[1].numel(); }

std::vector<Metric> LanguageModelling::metrics() const { return {{.name = "loss"}}; }

at::Tensor LanguageModelling::sums(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy(output, batch, at::Reduction::Sum).to(at::kDouble).unsqueeze(0);
}

void register_language_modelling(TaskRegistry& tasks) {
  tasks.add("language_modelling", "the next token after each token: cross-entropy over the vocabulary",
            [](const Options&, const DataShape& data) {
              if (data.classes == 0 || data.tensors.at(1).sizes.size() != 1) {
                throw Exception(
                    ErrorCode::kConfig,
                    fmt::format("/task/type: language_modelling needs data of tokens, and \"{}\" is "
                                "none; choose classification or regression",
                                data.tensors.back().name));
              }
              return std::make_unique<LanguageModelling>();
            });
}

}  // namespace ddprun::tasks
