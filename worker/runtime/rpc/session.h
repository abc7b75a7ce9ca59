#pragma once

#include "worker/runtime/rpc/gathering.h"
#include <ddprun/rpc.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/rpc/rpc_agent.h>
#include <torch/csrc/distributed/rpc/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// This process's part in the world of remote calls, from init_rpc to shutdown.
struct RpcSession {
  /// A reference whose maker took too long for this worker, which dropped it: its owner may have it all the same.
  struct Late {
    torch::distributed::rpc::worker_id_t owner;
    torch::distributed::rpc::RRefId reference;
    torch::distributed::rpc::ForkId fork;
  };

  std::string name;
  rpc::Options options;
  int world_size = 1;
  bool with_python = false;       ///< some ranks may be in Python
  std::set<std::string> names{};  ///< of all workers
  Gathering gathering{};
  int meetings = 0;  ///< how often all have gathered
  std::atomic<bool> is_closing = false;
  std::mutex close_mutex{};
  bool is_closed = false;          ///< under close_mutex
  std::shared_mutex call_mutex{};  ///< shared by whoever makes a call or a reference, see use()
  c10::intrusive_ptr<c10d::Store> store{};
  std::shared_ptr<torch::distributed::rpc::RpcAgent> agent{};

  /// While it lives, libtorch's table of references does. Throws Exception kUnavailable where rpc closes.
  std::shared_lock<std::shared_mutex> use();

  void add_late(const Late& reference);
  std::vector<Late> late();

 private:
  std::mutex late_mutex_{};
  std::vector<Late> late_{};
};

/// Null before init_rpc and after shutdown, and in a child of fork, which has none of the agent's threads.
std::shared_ptr<RpcSession> current_rpc_session();
void set_rpc_session(std::shared_ptr<RpcSession> session);

/// A call's time in the agent's words, which counts milliseconds in an int and takes zero for for ever: so is what is
/// longer than that.
float agent_seconds(std::chrono::milliseconds time);

/// Throws Exception kConfig where there is none.
std::shared_ptr<RpcSession> rpc_session_for(const char* what);

}  // namespace ddprun::runtime
