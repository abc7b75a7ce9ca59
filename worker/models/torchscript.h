#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// torchscript: what torch.jit.script or torch.jit.trace of Python saved, with its weights, names and code.
/// "torchscript" is the file.
///
/// Errors of its factory  Exception kConfig: no such file, or none of TorchScript's; a module whose parameters and
///                        buffers are none
void register_torchscript(ModelRegistry& models);

}  // namespace ddprun::models
