#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/model.h>

#include <string>

namespace ddprun::commands {

/// Writes `model`, which is on the CPU, with its forward as TorchScript: traced in evaluation mode, with the
/// module tree, the parameters and the buffers under the model's own names, so that Python's torch.jit.load has its
/// state_dict(). What was traced is then run, read back from the file's bytes, on one, two and three samples, and
/// has to give the model's own bits.
///
/// Errors  Exception kConfig: what cannot be traced (an operation of a plug-in's own, numbers that depend on how
///         many samples there are); kOs: the disk refuses
void save_torchscript(const std::string& path, Model& model, const DataShape& data);

}  // namespace ddprun::commands
