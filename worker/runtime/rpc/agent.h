#pragma once

#include <torch/csrc/distributed/rpc/message.h>

#define USE_TENSORPIPE  // without it libtorch's header of its agent is empty
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>

namespace ddprun::runtime {

/// libtorch's agent, for which a worker that is gone has heard what it is told of references, and one that is busy
/// may take any time to. libtorch waits for the owner's word before it runs a call with a reference to a value of it,
/// tells it six times, and throws then where nobody catches: the call never runs, and its own counts as open for
/// ever. A function that is called with a lost reference runs, and hears who is gone when it asks for the value.
class RpcAgent final : public torch::distributed::rpc::TensorPipeAgent {
 public:
  using TensorPipeAgent::TensorPipeAgent;

  c10::intrusive_ptr<torch::distributed::rpc::JitFuture> send(
      const torch::distributed::rpc::WorkerInfo& to,
      c10::intrusive_ptr<torch::distributed::rpc::Message> message, float timeout_seconds,
      const torch::distributed::rpc::DeviceMap& devices) override;
};

}  // namespace ddprun::runtime
