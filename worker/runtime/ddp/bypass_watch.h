#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::runtime {

/// Notices a backward that no wrapped forward prepared: the classic mistake of calling the model in place of
/// the wrapper, after which gradients silently stay local.
///
/// Counts, for each parameter, how often its gradient was accumulated since the last synchronising forward;
/// it permits one accumulation, which is reduced. After a forward under no_sync there may be any number: the
/// next reduction includes them.
/// Threads  `forward_ran` on the training thread; the hooks on autograd's, of which each device has its own.
class BypassWatch {
 public:
  enum class Repeats { kForbidden, kAllowed };  ///< may one forward be followed by several accumulations?

  BypassWatch(const std::vector<std::pair<std::string, at::Tensor>>& parameters, Repeats repeats);
  ~BypassWatch();
  BypassWatch(const BypassWatch&) = delete;
  BypassWatch& operator=(const BypassWatch&) = delete;

  enum class Gradients { kReduced, kAccumulatedLocally };
  void forward_ran(Gradients gradients);

  /// Parameters got other data, maybe of another dtype: their gradients are accumulated by other nodes.
  void follow();

 private:
  struct Watched;
  void accumulated(std::size_t index);

  std::vector<std::unique_ptr<Watched>> watched_;
  int permitted_ = 0;
  Repeats repeats_;
};

}  // namespace ddprun::runtime
