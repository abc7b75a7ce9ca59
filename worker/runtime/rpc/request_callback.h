#pragma once

#include "worker/runtime/rpc/functions.h"
#include "worker/runtime/rpc/given_back.h"

#include <torch/csrc/distributed/rpc/request_callback_no_python.h>

#include <memory>
#include <vector>

namespace ddprun::runtime {

struct RpcSession;

/// What this worker does at others' requests: libtorch's own without Python, and with it functions that answer later,
/// TorchScript functions, exceptions that say their class, backward from a reference, and Python's words of joining and
/// leaving.
class RpcRequests final : public torch::distributed::rpc::RequestCallbackNoPython {
 public:
  /// `session` outlives this. Once it closes, no function begins any more: not those either that waited for a thread,
  /// or for the owner of an argument.
  explicit RpcRequests(RpcSession& session) : session_(session) {}

 protected:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  using Command = torch::distributed::rpc::RpcCommandBase;
  using MessageType = torch::distributed::rpc::MessageType;

  std::unique_ptr<Command> deserializePythonRpcCommand(std::unique_ptr<Command> rpc,
                                                       const MessageType& type) const override;
  Future processScriptCall(Command& rpc, const std::vector<c10::Stream>& streams) const override;
  Future processScriptRemoteCall(Command& rpc, const std::vector<c10::Stream>& streams) const override;
  Future processPythonCall(Command& rpc, const std::vector<c10::Stream>& streams) const override;
  Future processPythonRemoteCall(Command& rpc, const std::vector<c10::Stream>& streams) const override;
  Future processPythonRRefFetchCall(Command& rpc) const override;
  Future processRRefBackward(Command& rpc) const override;
  Future processRpcWithErrors(Command& rpc, const MessageType& type,
                              const std::vector<c10::Stream>& streams) const override;
  /// libtorch's own looks into the reference, which is null while others are left (torch 2.11).
  void handleRRefDelete(c10::intrusive_ptr<torch::distributed::rpc::RRef>&) const override {}

 private:
  [[nodiscard]] Future run(const Callable& callable, std::vector<c10::IValue>& stack) const;
  [[nodiscard]] Future failed() const;

  RpcSession& session_;
  mutable GivenBack given_back_;
};

/// Whether this thread runs what another worker has called, or what follows an answer: it is one of the agent's.
bool is_on_agent_thread();
class OnAgentThread {
 public:
  OnAgentThread();
  ~OnAgentThread();
  OnAgentThread(const OnAgentThread&) = delete;
  OnAgentThread& operator=(const OnAgentThread&) = delete;
};

}  // namespace ddprun::runtime
