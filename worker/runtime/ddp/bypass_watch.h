#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <unordered_map>
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
/// Threads  `forward_ran` and `moved_parameter` on the training thread, `follow` on that or at the end of a backward on
///          autograd's; the hooks on autograd's, of which each device has its own.
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

  /// A parameter, maybe one that is frozen at the moment, got other data of the wrapper itself, maybe of another
  /// dtype: its gradient is accumulated by another node.
  void follow(const at::Tensor& parameter);

  /// What is wrong where one got such data of somebody else: the reducer's hooks are not on that node, and its
  /// gradient would stay on this rank. Empty where nothing is.
  [[nodiscard]] std::string moved_parameter() const;

 private:
  struct Watched;
  void follow(Watched& watched);
  void accumulated(const Watched& watched) const;

  std::vector<std::unique_ptr<Watched>> watched_;
  std::unordered_map<const c10::TensorImpl*, Watched*> watched_of_;
  const c10d::Reducer* reducer_ = nullptr;
  Gradients last_forward_ = Gradients::kReduced;
};

}  // namespace ddprun::runtime
