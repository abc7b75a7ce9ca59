#include "worker/runtime/comm/join_world.h"

#include "worker/runtime/comm/backends.h"
#include "worker/runtime/comm/roll_call/polite_store.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/types.h>

namespace ddprun::runtime {
namespace {

// c10::Error's what() carries a C++ stack; a user needs its first line.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

c10::intrusive_ptr<c10d::ProcessGroup> make_or_fall_back(const BackendRequest& request,
                                                         Placement& placement) {
  try {
    return make_group(request, backends_at(placement), placement.gpu);
  } catch (const Exception& error) {
    // Every rank gets the same verdict, so all of them turn to gloo together. Whoever named shm wants to know
    // instead.
    if (error.code() != ErrorCode::kUnavailable || !placement.may_fall_back) throw;
    placement.backend = BackendKind::kGloo;
    placement.reason += fmt::format("; not shm: {}", error.what());
    return make_group(request, backends_at(placement), placement.gpu);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_store(const WorkerEnv& env, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = env.master_port.value();
  options.isServer = !env.use_agent_store && env.rank.value() == 0;
  options.numWorkers = static_cast<std::size_t>(env.world_size.value());
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    auto store =
        c10::make_intrusive<PoliteStore>(c10::make_intrusive<c10d::TCPStore>(env.master_addr, options));
    // torchrun keeps its store over restarts; ddprun serves a fresh one. A prefix makes both safe.
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("ddprun/{}", env.restart_count),
                                                  std::move(store));
  } catch (const std::exception& error) {
    throw Exception(
        ErrorCode::kUnavailable,
        fmt::format("init: rank {} cannot reach the store at {}:{}: {}; is the launcher that set MASTER_ADDR "
                    "and MASTER_PORT still running?",
                    env.rank, env.master_addr, env.master_port, first_line(error)));
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const WorkerEnv& env, Placement& placement,
                                                          std::chrono::milliseconds timeout) {
  const BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("world", store),
                               .rank = env.rank.value(),
                               .world_size = env.world_size.value(),
                               .one_host = env.local_world_size.value() == env.world_size.value(),
                               .timeout = timeout};
  try {
    return make_or_fall_back(request, placement);
  } catch (const std::exception& error) {
    throw Exception(ErrorCode::kUnavailable,
                    fmt::format("init: rank {} of {} cannot make its {} process group within {:.1f} s: {}",
                                env.rank, env.world_size, to_string(backends_at(placement)),
                                std::chrono::duration<double>(timeout).count(), first_line(error)));
  }
}

}  // namespace ddprun::runtime
