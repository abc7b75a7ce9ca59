#pragma once

#include <ddprun/trainer/data_source.h>

#include <memory>

namespace ddprun::data {

/// How the samples of a batch are mixed with their neighbours; 0: not that way. Where both are given, each batch
/// takes one of them, with equal chance.
struct MixOptions {
  double mixup_alpha = 0;
  double cutmix_alpha = 0;
};

/// The batches of `source`, mixed (worker/transforms/mix.h). The labels, tensor 1, become a share of each class:
/// float, N × classes. What is random in a batch follows from the request's seed and epoch and its first index, so
/// that it is the same whatever thread makes it, and after a resume.
///
/// Errors  Exception kConfig: data without one class for each sample, an input that is no float, and for CutMix one
///         that is no image.
std::shared_ptr<const DataSource> mixed(std::shared_ptr<const DataSource> source, const MixOptions& options);

}  // namespace ddprun::data
