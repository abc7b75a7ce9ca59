#include "worker/runtime/rpc/agent.h"

#include "worker/runtime/rpc/failure.h"

#include <torch/csrc/distributed/rpc/rref_proto.h>

#include <utility>

namespace ddprun::runtime {
namespace {

namespace trpc = torch::distributed::rpc;
using Answer = c10::intrusive_ptr<trpc::JitFuture>;

constexpr float kNoLimit = 0;

bool is_of_references(trpc::MessageType type) {
  return type == trpc::MessageType::RREF_FORK_REQUEST || type == trpc::MessageType::RREF_CHILD_ACCEPT ||
         type == trpc::MessageType::RREF_USER_DELETE;
}

void acknowledge_if_lost(trpc::JitFuture& done, trpc::JitFuture& answer) {
  if (!done.hasError()) {
    answer.markCompleted(done.constValue(), done.storages());
  } else if (is_lost_connection(done.tryRetrieveErrorMessage())) {
    answer.markCompleted(trpc::RRefAck().toMessage());
  } else {
    answer.setError(done.exception_ptr());
  }
}

}  // namespace

Answer RpcAgent::send(const trpc::WorkerInfo& to, c10::intrusive_ptr<trpc::Message> message,
                      float timeout_seconds, const trpc::DeviceMap& devices) {
  if (!is_of_references(message->type()))
    return TensorPipeAgent::send(to, std::move(message), timeout_seconds, devices);
  const Answer sent = TensorPipeAgent::send(to, std::move(message), kNoLimit, devices);
  auto answer = c10::make_intrusive<trpc::JitFuture>(sent->elementType());
  sent->addCallback([answer](trpc::JitFuture& done) { acknowledge_if_lost(done, *answer); });
  return answer;
}

}  // namespace ddprun::runtime
