#pragma once

#include <ddprun/group.h>
#include <ddprun/module_view.h>

#include <string>
#include <vector>

namespace ddprun::runtime {

/// One parameter per line: "name dtype [sizes] strides [strides]".
std::vector<std::string> describe(const std::vector<ModuleView::Parameter>& parameters);

/// What is different between this rank's parameters and rank 0's, as a sentence; empty if nothing is. Pure.
/// Names are not compared: they may differ where shapes do not.
std::string first_difference(const std::vector<std::string>& rank0, const std::vector<std::string>& mine,
                             int rank);

/// Throws the same Exception kConfig on every rank unless all have parameters of the same number, dtypes,
/// shapes and strides in the same order. Collective. One all-gather of 8 bytes where they agree.
void verify_replicas(const Group& group, const std::vector<ModuleView::Parameter>& parameters);

}  // namespace ddprun::runtime
