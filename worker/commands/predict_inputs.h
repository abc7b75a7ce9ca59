#pragma once

#include "worker/commands/opened_job.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun::commands {

/// What a file holds for the job's model.
struct Inputs {
  std::vector<std::string> names;  ///< of the samples, for people
  at::Tensor samples;              ///< as the model is fed
};

/// Reads a file as the job reads its held-out data: a JPEG or PNG through /data/test_transforms, the columns of a CSV
/// file by name and standardised like the training data, an array of numpy.save.
/// Errors  Exception kConfig, kCorrupt, kNotFound, naming the file; kUsage: data of this kind is not known.
Inputs read_inputs(const OpenedJob& job, const std::string& path);

}  // namespace ddprun::commands
