#pragma once

#include <ddprun/group.h>
#include <ddprun/module_view.h>

#include <string>
#include <vector>

namespace ddprun::runtime {

/// One tensor per line, "name layout": parameters, those that are not trained as "frozen …", and buffers as
/// "buffer …". What is named in `ignored` and undefined tensors are left out. Pure.
std::vector<std::string> describe(const std::vector<ModuleView::Parameter>& parameters,
                                  const std::vector<std::string>& ignored,
                                  const std::vector<NamedTensor>& buffers);

/// What is different between this rank's lines and rank 0's, as a sentence; empty if nothing is. Pure.
/// Names are not compared: they may differ where layouts do not.
std::string first_difference(const std::vector<std::string>& rank0, const std::vector<std::string>& mine,
                             int rank);

/// Throws the same Exception kConfig on every rank unless all have parameters and buffers of the same number, dtypes
/// and shapes in the same order, the same of them trained, and those with the same strides. Collective. One
/// all-gather of 8 bytes where they agree.
void verify_replicas(const Group& group, const std::vector<ModuleView::Parameter>& parameters,
                     const std::vector<std::string>& ignored, const std::vector<NamedTensor>& buffers);

}  // namespace ddprun::runtime
