#include "worker/runtime/rpc/backward.h"
#include "worker/runtime/rpc/session.h"
#include <ddprun/dist_autograd.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/autograd/context/container.h>

namespace ddprun::dist_autograd {
namespace {

namespace engine = torch::distributed::autograd;

using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;

engine::DistAutogradContainer& contexts() { return engine::DistAutogradContainer::getInstance(); }

Pairs pairs_of(const c10::Dict<at::Tensor, at::Tensor>& gradients) {
  Pairs pairs;
  for (const auto& entry : gradients) pairs.emplace_back(entry.key(), entry.value());
  return pairs;
}

}  // namespace

Context::Context() : id_(0) {
  runtime::rpc_session_for("a dist_autograd::Context");
  if (contexts().hasValidContext())
    throw Exception(ErrorCode::kConfig,
                    fmt::format("dist_autograd: this thread is in context {} already; leave that one first",
                                engine::DistAutogradContainer::currentContextId()));
  id_ = contexts().newContext()->contextId();
}

Context::~Context() {
  try {
    contexts().releaseContext(id_);
    contexts().clearCurrentContext();
  } catch (const std::exception&) {
    // Nobody is left to tell: rpc is closed, or the context is gone with a worker.
  }
}

void Context::backward(const std::vector<at::Tensor>& roots, bool retain_graph) {
  runtime::run_backward(id_, roots, retain_graph);
}

Pairs Context::gradients() const { return gradients_in(id_); }

at::Tensor Context::gradient(const at::Tensor& tensor) const {
  const auto all = contexts().retrieveContext(id_)->getGradients();
  const auto found = all.find(tensor);
  return found == all.end() ? at::Tensor() : found->value();
}

std::int64_t current_context_id() {
  if (!runtime::current_rpc_session() || !contexts().hasValidContext())
    throw Exception(
        ErrorCode::kConfig,
        "dist_autograd: this thread is in no context; make a dist_autograd::Context before the calls");
  return engine::DistAutogradContainer::currentContextId();
}

Pairs gradients_in(std::int64_t context_id) {
  runtime::rpc_session_for("gradients of a context");
  engine::ContextPtr context;
  try {
    context = contexts().retrieveContext(context_id);
  } catch (const c10::Error&) {
    throw Exception(
        ErrorCode::kNotFound,
        fmt::format("dist_autograd: worker '{}' knows no context {}; it took no part in it, or it is over",
                    runtime::rpc_session_for("gradients")->name, context_id));
  }
  return pairs_of(context->getGradients());
}

}  // namespace ddprun::dist_autograd
