#pragma once

#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

#include <memory>

namespace ddprun::training {

/// What a job's batches are taken from: `train`, mixed where /train/mixup_alpha or /train/cutmix_alpha want it.
/// Errors  Exception kConfig: the task or the data is none that can be mixed.
std::shared_ptr<const DataSource> training_batches(const Options& job,
                                                   std::shared_ptr<const DataSource> train);

}  // namespace ddprun::training
