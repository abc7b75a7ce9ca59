#include "worker/training/step/exposed_communication.h"

#include <torch/csrc/autograd/engine.h>

namespace ddprun::training {

void count_exposed_communication(const at::Tensor& loss, TimeSpent& time) {
  if (!loss.requires_grad()) return;
  loss.register_hook([&time](const at::Tensor&) {
    // The reducer's wait is queued when all gradients are there: after the first of these, before the second.
    torch::autograd::Engine::get_default_engine().queue_callback([&time] {
      ActivityWatcher* const watcher = time.watcher();
      if (watcher != nullptr)
        watcher->begins(kActivityNames[static_cast<std::size_t>(Activity::kCommunication)]);
      torch::autograd::Engine::get_default_engine().queue_callback([&time, watcher, start = time.now()] {
        if (watcher != nullptr) watcher->ends();
        time.move(Activity::kBackward, Activity::kCommunication, time.now() - start);
      });
    });
  });
}

}  // namespace ddprun::training
