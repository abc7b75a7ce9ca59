#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace c10d {
class Reducer;
}

namespace ddprun::runtime {

/// Notices a backward that no wrapped forward prepared: the classic mistake of calling the model in place of
/// the wrapper, after which gradients silently stay local.
///
/// A gradient is permitted that the reducer waits for, and, after a forward under no_sync, any: the next
/// reduction includes them.
/// Threads  `forward_ran` and `check` on the training thread; the hooks on autograd's, of which each device has its own.
class BypassWatch {
 public:
  explicit BypassWatch(const std::vector<std::pair<std::string, at::Tensor>>& parameters);
  ~BypassWatch();
  BypassWatch(const BypassWatch&) = delete;
  BypassWatch& operator=(const BypassWatch&) = delete;

  /// `reducer` outlives this.
  void connect(const c10d::Reducer& reducer) { reducer_ = &reducer; }

  enum class Gradients { kReduced, kAccumulatedLocally };
  void forward_ran(Gradients gradients) { last_forward_ = gradients; }

  /// Parameters got other data, maybe of another dtype: their gradients are accumulated by other nodes.
  void follow();

  /// Throws Exception kConfig where one got such data from somebody else: the reducer's hooks are not on that node, and
  /// its gradient would stay on this rank.
  void check() const;

 private:
  struct Watched;
  void accumulated(const Watched& watched) const;

  std::vector<std::unique_ptr<Watched>> watched_;
  const c10d::Reducer* reducer_ = nullptr;
  Gradients last_forward_ = Gradients::kReduced;
};

}  // namespace ddprun::runtime
