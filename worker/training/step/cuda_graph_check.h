#pragma once

#include <c10/core/Device.h>

#include <string>

namespace ddprun::training {

/// What /train/cuda_graph wants of the device and of the backend that a rank has got; the job file has been asked
/// before.
/// Errors  Exception kConfig: forward and backward cannot be recorded there.
void check_cuda_graph(const c10::Device& device, const std::string& backend);

}  // namespace ddprun::training
