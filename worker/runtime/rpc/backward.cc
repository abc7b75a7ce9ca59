#include "worker/runtime/rpc/backward.h"

#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/session.h"
#include "worker/runtime/rpc/signs_of_life.h"
#include "worker/runtime/rpc/thrown.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/autograd/engine/dist_engine.h>

#include <chrono>
#include <string>

namespace ddprun::runtime {
namespace {

/// The error does not say whose connection it was.
Exception lost_in_backward(const RpcSession& session, std::int64_t context, const std::string& error) {
  std::vector<std::string> gone;
  for (const auto& [name, why] : lost_connections(session, session.names)) gone.push_back(name);
  const std::string who =
      gone.empty() ? "a worker that took part" : fmt::format("worker '{}'", fmt::join(gone, "', '"));
  return {
      ErrorCode::kPeerLost,
      fmt::format("dist_autograd: the backward in context {}: {} is gone ({}); its own last words, or the "
                  "launcher's report, say why",
                  context, who, error)};
}

Exception slow_backward(const RpcSession& session, std::int64_t context) {
  return {ErrorCode::kTimeout,
          fmt::format(
              "dist_autograd: the backward in context {}: a worker that took part has not answered within "
              "{:.3g} s, which is Options::timeout",
              context, std::chrono::duration<double>(session.options.timeout).count())};
}

}  // namespace

void run_backward(std::int64_t context, const std::vector<at::Tensor>& roots, bool retain_graph) {
  const auto session = rpc_session_for("a backward over several workers");
  try {
    torch::distributed::autograd::DistEngine::getInstance().execute(context, roots, retain_graph);
  } catch (const std::exception& error) {
    if (is_lost_connection(error.what()))
      throw lost_in_backward(*session, context, without_stack(error.what()));
    if (is_timeout(error.what())) throw slow_backward(*session, context);
    if (dynamic_cast<const c10::Error*>(&error) != nullptr) throw;
    throw c10::Error(without_stack(error.what()),
                     nullptr);  // libtorch's future has kept the words alone
  }
}

}  // namespace ddprun::runtime
