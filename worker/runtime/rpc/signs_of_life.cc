#include "worker/runtime/rpc/signs_of_life.h"

#include "worker/runtime/rpc/failure.h"

#include <torch/csrc/distributed/rpc/script_call.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace ddprun::runtime {
namespace {

namespace trpc = torch::distributed::rpc;

using Answer = c10::intrusive_ptr<c10::ivalue::Future>;

/// A call that workers in Python answer as well.
Answer ask(const RpcSession& session, const std::string& name, std::chrono::milliseconds timeout) {
  const auto operators = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::neg"));
  const auto found = std::find_if(operators.begin(), operators.end(),
                                  [](const auto& op) { return op->schema().overload_name() == "int"; });
  if (found == operators.end()) return nullptr;
  std::vector<c10::IValue> arguments{std::int64_t{1}};
  return session.agent->send(session.agent->getWorkerInfo(name),
                             trpc::ScriptCall(*found, std::move(arguments)).toMessage(),
                             agent_seconds(timeout));
}

std::optional<std::string> loss_in(const Answer& answer) {
  if (!answer) return {};
  answer->wait();
  if (!answer->hasError()) return {};
  std::string error = answer->tryRetrieveErrorMessage();
  if (!is_lost_connection(error)) return {};
  return error;
}

}  // namespace

std::map<std::string, std::string> lost_connections(const RpcSession& session,
                                                    const std::set<std::string>& names,
                                                    std::chrono::milliseconds timeout) {
  std::map<std::string, Answer> answers;
  for (const std::string& name : names) {
    if (name != session.name) answers.emplace(name, ask(session, name, timeout));
  }
  std::map<std::string, std::string> lost;
  for (const auto& [name, answer] : answers) {
    if (auto error = loss_in(answer)) lost.emplace(name, std::move(*error));
  }
  return lost;
}

}  // namespace ddprun::runtime
