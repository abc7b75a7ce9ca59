#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

/// A backward over several workers: torch.distributed.autograd. What is computed by remote calls within a context is
/// recorded on every worker, and the backward goes back over the same calls.
namespace ddprun::dist_autograd {

/// Records the calls that this thread makes while it lives, and holds the gradients that its backward computes, on
/// every worker those of its own tensors; nothing is added to `grad()`.
///
///     ddprun::dist_autograd::Context pass;
///     const auto hidden = ddprun::rpc::rpc_sync<at::Tensor>("server", "demo::embed", input);
///     pass.backward({loss_of(model->forward(hidden))});
///     at::Tensor gradient = pass.gradient(model->parameters()[0]);
///
/// Functions that are called within it run in it, too, on their own worker and thread, and so do the calls that they
/// make before they return. What is called in a Future's `then` is in no context, as in Python: call before, and wait.
///
/// Threads  one at a time for a thread, and destroyed on the one that made it.
class Context {
 public:
  /// Errors  Exception kConfig: rpc is not running, or this thread is in a context.
  Context();
  /// Drops the gradients, on every worker that took part.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// By which all workers know it. Functions find it with current_context_id().
  [[nodiscard]] std::int64_t id() const { return id_; }

  /// Computes the gradients of the sum of `roots`, scalars of this worker, and returns when all workers have theirs.
  /// Several backward passes add up.
  /// Errors  Exception kPeerLost, naming the worker: one that took part is gone; kTimeout; c10::Error as of
  ///         any backward.
  void backward(const std::vector<at::Tensor>& roots, bool retain_graph = false);

  /// Of a tensor of this worker; undefined where none was computed.
  [[nodiscard]] at::Tensor gradient(const at::Tensor& tensor) const;
  /// Of all of this worker's: tensor and gradient.
  [[nodiscard]] std::vector<std::pair<at::Tensor, at::Tensor>> gradients() const;

 private:
  std::int64_t id_;
};

/// The context that a function was called in, or that this thread has made.
/// Errors  Exception kConfig: none.
[[nodiscard]] std::int64_t current_context_id();

/// The gradients of this worker in a context that may have been made on another one.
/// Errors  Exception kNotFound: no such context is known here.
[[nodiscard]] std::vector<std::pair<at::Tensor, at::Tensor>> gradients_in(std::int64_t context_id);

}  // namespace ddprun::dist_autograd
