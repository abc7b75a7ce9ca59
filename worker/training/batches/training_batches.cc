#include "worker/training/batches/training_batches.h"

#include "worker/data/mixed_source.h"
#include "worker/tasks/registry.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ddprun::training {

std::shared_ptr<const DataSource> training_batches(const Options& job,
                                                   std::shared_ptr<const DataSource> train) {
  const Options options = job.object("train");
  const data::MixOptions mix{.mixup_alpha = options.number("mixup_alpha"),
                             .cutmix_alpha = options.number("cutmix_alpha")};
  if (mix.mixup_alpha == 0 && mix.cutmix_alpha == 0) return train;
  const std::string named = job.object("task").text("type");
  const std::string task = named == "auto" ? tasks::task_for(train->shape()) : named;
  if (task != "classification") {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/train/{}: mixes the labels of classification, and the task is {}; remove it",
                    mix.mixup_alpha > 0 ? "mixup_alpha" : "cutmix_alpha", task));
  }
  return data::mixed(std::move(train), mix);
}

}  // namespace ddprun::training
