#pragma once

#include "rendezvous/base/result.h"
#include "worker/data/images.h"
#include "worker/data/mnist.h"

#include <string>

namespace ddprun::data {

enum class Cifar { k10, k100 };

/// Loads CIFAR's binary version (Krizhevsky, 2009): records of a label, in CIFAR-100 a coarse and a fine one,
/// and 3 × 32 × 32 bytes in planes. Where it is not there, Python's version: the same bytes in pickled dicts, of which
/// nothing is executed.
///
///   k10   data_batch_1.bin to data_batch_5.bin, as many of them as there are, and test_batch.bin; names of
///         classes from batches.meta.txt if it is there. Python's: data_batch_1, test_batch, batches.meta
///   k100  train.bin, test.bin; fine_label_names.txt. Python's: train, test, meta
///
/// Errors  one sentence naming the file, what was expected and found, and what to do: kNotFound, kCorrupt, kOs.
Result<ImageSplits> load_cifar(Cifar which, const std::string& folder, const SampleLimits& limits);

}  // namespace ddprun::data
