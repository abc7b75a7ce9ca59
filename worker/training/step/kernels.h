#pragma once

#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>

#include <ATen/Device.h>

#include <string>

namespace ddprun::training {

/// How libtorch computes, as /train of a job file says it: precision tf32, cudnn_benchmark and deterministic. For
/// the whole process, and without an effect on what has been computed.
void choose_kernels(const Options& train);

/// With /train/virtual_ranks, kernels compute on one thread unless OMP_NUM_THREADS says otherwise: on several they
/// sum in another order, and a process that is alone on its host would take all processors. For the whole process.
void choose_threads(const Options& train);

/// Whether this is an x86 CPU without AVX-512, where libtorch multiplies matrices of bf16 without vectors.
bool is_slow_in_bf16();

/// What a person is told of a job whose precision is slow on its CPU: fp16, or bf16 where that is; empty of any other.
/// Pure.
std::string warning_of_slow_precision(const Options& train, const at::Device& device, bool is_bf16_slow);

/// Lays the weights of two-dimensional convolutions out as channels_last. A convolution takes the layout of its
/// weights whatever its input has, so that from the first one on all are in it.
void lay_out_channels_last(Model& model);

}  // namespace ddprun::training
