#pragma once

#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>

namespace ddprun::training {

/// How libtorch computes, as /train of a job file says it: precision tf32, cudnn_benchmark and deterministic. For
/// the whole process, and without an effect on what has been computed.
void choose_kernels(const Options& train);

/// Lays the weights of two-dimensional convolutions out as channels_last. A convolution takes the layout of its
/// weights whatever its input has, so that from the first one on all are in it.
void lay_out_channels_last(Model& model);

}  // namespace ddprun::training
