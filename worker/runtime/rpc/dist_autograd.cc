#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/session.h"
#include "worker/runtime/rpc/signs_of_life.h"
#include "worker/runtime/rpc/thrown.h"
#include <ddprun/dist_autograd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/autograd/context/container.h>
#include <torch/csrc/distributed/autograd/engine/dist_engine.h>

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

/// The error does not say whose connection it was.
Exception lost_in_backward(const runtime::RpcSession& session, std::int64_t context,
                           const std::string& error) {
  std::vector<std::string> gone;
  for (const auto& [name, why] : runtime::lost_connections(session, session.names)) gone.push_back(name);
  const std::string who =
      gone.empty() ? "a worker that took part" : fmt::format("worker '{}'", fmt::join(gone, "', '"));
  return {
      ErrorCode::kPeerLost,
      fmt::format("dist_autograd: the backward in context {}: {} is gone ({}); its own last words, or the "
                  "launcher's report, say why",
                  context, who, error)};
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
  const auto session = runtime::rpc_session_for("a backward over several workers");
  try {
    engine::DistEngine::getInstance().execute(id_, roots, retain_graph);
  } catch (const std::exception& error) {
    if (runtime::is_lost_connection(error.what()))
      throw lost_in_backward(*session, id_, runtime::without_stack(error.what()));
    if (runtime::is_timeout(error.what()))
      throw Exception(
          ErrorCode::kTimeout,
          fmt::format("dist_autograd: the backward in context {}: a worker that took part has not answered "
                      "within {:.3g} s, which is Options::timeout",
                      id_, std::chrono::duration<double>(session->options.timeout).count()));
    if (dynamic_cast<const c10::Error*>(&error) != nullptr) throw;
    throw c10::Error(runtime::without_stack(error.what()),
                     nullptr);  // libtorch's future has kept the words alone
  }
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
