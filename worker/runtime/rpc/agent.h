#pragma once

#include <torch/csrc/distributed/rpc/message.h>

#define USE_TENSORPIPE  // without it libtorch's header of its agent is empty
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>

namespace ddprun::runtime {

/// libtorch's agent, for which a worker that is gone has heard what it is told of references. libtorch waits for its word
/// before it runs a call with a reference to a value of it, tries five times, throws where nobody catches, and never
/// answers. The function that is called runs now, and hears who is gone when it asks for the value.
class RpcAgent final : public torch::distributed::rpc::TensorPipeAgent {
 public:
  using TensorPipeAgent::TensorPipeAgent;

  c10::intrusive_ptr<torch::distributed::rpc::JitFuture> send(
      const torch::distributed::rpc::WorkerInfo& to,
      c10::intrusive_ptr<torch::distributed::rpc::Message> message, float timeout_seconds,
      const torch::distributed::rpc::DeviceMap& devices) override;
};

}  // namespace ddprun::runtime
