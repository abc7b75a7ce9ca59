#include "worker/runtime/rpc/leave.h"

#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/meeting.h"
#include "worker/runtime/rpc/request_callback.h"
#include "worker/runtime/rpc/thrown.h"
#include <ddprun/rpc.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>

namespace ddprun::runtime {
namespace {

namespace trpc = torch::distributed::rpc;

using std::chrono::milliseconds;

constexpr auto kForReferences = milliseconds(std::chrono::seconds(100));  // as Python
constexpr auto kInStore = milliseconds(std::chrono::seconds(100));        // where all have met before
constexpr auto kForEver = milliseconds(std::chrono::hours(24 * 365));
constexpr auto kBetweenLooks = std::chrono::seconds(1);
constexpr auto kToLeave = std::chrono::seconds(2);
constexpr auto kToFlush = std::chrono::seconds(1);

/// Whether `body` came to its end in time; on a thread of its own, which goes on otherwise.
template <class Body>
bool done_within(std::chrono::seconds time, Body body) {
  const auto is_done = std::make_shared<std::promise<void>>();
  std::thread([body = std::move(body), is_done] {
    body();
    is_done->set_value();
  }).detach();
  return is_done->get_future().wait_for(time) == std::future_status::ready;
}

/// Who reads from a file holds its lock, also while nothing comes; fflush(nullptr) stops there. So those that matter to
/// most are first.
void flush_all() {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
  std::fflush(nullptr);
}

/// The agent's threads would go on while what they use is destroyed. A child of fork has none, and a thread of the
/// agent that ends the process cannot wait for itself. Nor does the process wait for a function that does not return.
void leave_at_exit(int status, void*) {
  const auto session = current_rpc_session();
  if (!session || is_on_agent_thread()) return;
  const bool has_left = done_within(kToLeave, [session] {
    try {
      close_rpc(*session);
    } catch (const std::exception&) {
      // Nobody is left to tell.
    }
  });
  if (has_left) return;
  done_within(kToFlush, flush_all);
  ::_exit(status);
}

/// An owner that has got none of it yet takes no notice: what was given back before is given back again.
void give_back_late(RpcSession& session) {
  for (const auto& [owner, reference, fork] : session.late())
    trpc::RRefContext::getInstance().delUser(owner, reference, fork);
}

/// References that nobody gives back would be waited for without end.
milliseconds time_for_references(const RpcSession& session) {
  const milliseconds timeout = session.options.timeout;
  return timeout.count() == 0 ? kForReferences : std::min(timeout, kForReferences);
}

void wait_for_references(RpcSession& session) {
  give_back_late(session);
  trpc::RRefContext::getInstance().delAllUsersAndUnforkedOwners(time_for_references(session));
  give_back_late(session);
}

/// This worker's calls, as long as they may take, its functions' and libtorch's own included. The agent tells nobody
/// when the last one ends.
void wait_for_calls(RpcSession& session) {
  auto pause = milliseconds(1);
  auto asked = std::chrono::steady_clock::now();
  while (!session.is_closing && session.agent->getMetrics().at("agent.client_active_calls") != "0") {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, milliseconds(20));
    if (const auto now = std::chrono::steady_clock::now(); now - asked > kBetweenLooks) {
      ask_for_life(session);
      asked = now;
    }
  }
}

void leave_in_store(RpcSession& session) {
  try {
    session.agent->join(true, 0);
  } catch (const std::exception& error) {
    const bool is_late = is_late_rank(error.what());
    if (is_late) say_given_up(session);
    ask_for_life(session);
    throw Exception(is_late ? ErrorCode::kTimeout : ErrorCode::kUnavailable,
                    fmt::format("rpc: worker '{}' waits in the store for all workers to leave: {}",
                                session.name, without_stack(error.what())));
  }
}

/// The agents' own meeting is in the store, which tells nobody who is late or gone. So ranks in C++ meet before, when
/// nothing is left to wait for. Ranks in Python meet in the store alone.
void leave(RpcSession& session) {
  wait_for_calls(session);
  gather_all(session, milliseconds(0));
  wait_for_references(session);
  if (session.with_python) {
    session.store->setTimeout(kForEver);
  } else {
    wait_for_calls(session);
    gather_all(session, milliseconds(0));
    session.store->setTimeout(kInStore);
  }
  leave_in_store(session);
}

}  // namespace

void close_rpc(RpcSession& session) {
  session.is_closing = true;  // open calls learn of it at once
  const std::lock_guard lock(session.close_mutex);
  if (std::exchange(session.is_closed, true) || !session.agent) return;
  session.agent->shutdown();
  // libtorch destroys its table of references without its lock. No thread of the agent is left that could use it.
  const std::unique_lock no_calls(session.call_mutex);
  trpc::RRefContext::destroyInstance(true);
  trpc::RpcAgent::setCurrentRpcAgent(nullptr);
  set_rpc_session(nullptr);
}

void leave_before_statics_that_are_there() { ::on_exit(leave_at_exit, nullptr); }

}  // namespace ddprun::runtime

namespace ddprun::rpc {

void shutdown(bool graceful) {
  if (runtime::is_on_agent_thread())
    throw Exception(
        ErrorCode::kConfig,
        "rpc: shutdown() on a thread of the agent, in a function that another worker has called or in then, "
        "would wait for itself; call it where this worker joined");
  if (!graceful) {
    if (const auto session = runtime::current_rpc_session()) runtime::close_rpc(*session);
    return;
  }
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto session = runtime::current_rpc_session();
  if (!session) return;
  try {
    runtime::leave(*session);
  } catch (...) {
    const bool by_another = session->is_closing;
    runtime::close_rpc(*session);
    if (by_another)
      throw Exception(ErrorCode::kUnavailable,
                      "rpc: another thread has shut rpc down while this one waited for all workers");
    throw;
  }
  runtime::close_rpc(*session);
}

}  // namespace ddprun::rpc
