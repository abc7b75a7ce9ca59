#pragma once

#include "worker/training/state/time_spent.h"

#include <ATen/core/Tensor.h>

namespace ddprun::training {

/// Counts, in the next backward from `loss`, how long this rank waits for the other ranks' gradients when its own are
/// all there: as exposed communication, not as backward, within which it has to be. On a GPU the host does not wait
/// there. What a rank computes of sums while its own gradients are still to come (shm) stays backward.
///
/// `time` outlives that backward.
void count_exposed_communication(const at::Tensor& loss, TimeSpent& time);

}  // namespace ddprun::training
