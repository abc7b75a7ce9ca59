#include "rendezvous/base/blocked_signals.h"
#include "worker/runtime/rpc/agent.h"
#include "worker/runtime/rpc/failure.h"
#include "worker/runtime/rpc/functions.h"
#include "worker/runtime/rpc/join.h"
#include "worker/runtime/rpc/leave.h"
#include "worker/runtime/rpc/meeting.h"
#include "worker/runtime/rpc/request_callback.h"
#include "worker/runtime/rpc/session.h"
#include "worker/runtime/rpc/thrown.h"
#include <ddprun/rpc.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/autograd/context/container.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <exception>
#include <memory>
#include <utility>

namespace ddprun::rpc {
namespace {

namespace trpc = torch::distributed::rpc;
using runtime::RpcSession;

/// libtorch's table of references knows one agent, for good.
std::atomic<bool> g_rpc_was_used = false;

void check_name(const std::string& name) {
  const bool is_good = !name.empty() && name.size() < trpc::WorkerInfo::MAX_NAME_LEN &&
                       std::all_of(name.begin(), name.end(), [](unsigned char letter) {
                         return std::isalnum(letter) != 0 || letter == '_' || letter == ':' || letter == '-';
                       });
  if (!is_good)
    throw Exception(
        ErrorCode::kConfig,
        fmt::format(
            "init_rpc: '{}' cannot be a worker's name; take letters, digits, '_', ':' and '-', fewer than {}",
            name, trpc::WorkerInfo::MAX_NAME_LEN));
}

void check_transports(const std::vector<std::string>& transports) {
  for (const std::string& transport : transports) {
    if (!trpc::TensorPipeTransportRegistry()->Has(transport))
      throw Exception(ErrorCode::kConfig,
                      fmt::format("init_rpc: there is no transport '{}'; this libtorch has {}", transport,
                                  fmt::join(trpc::TensorPipeTransportRegistry()->Keys(), ", ")));
  }
}

trpc::TensorPipeRpcBackendOptions agent_options(const Options& options) {
  std::optional<std::vector<std::string>> transports;
  if (!options.transports.empty()) transports = options.transports;
  return {options.threads, transports, std::nullopt, runtime::agent_seconds(options.timeout), "env://"};
}

std::shared_ptr<runtime::RpcAgent> make_agent(RpcSession& session,
                                              const c10::intrusive_ptr<c10d::Store>& store,
                                              const runtime::RpcSeat& seat) {
  auto requests = std::make_unique<runtime::RpcRequests>(session);
  auto agent = std::make_shared<runtime::RpcAgent>(
      store, session.name, static_cast<trpc::worker_id_t>(seat.env.rank.value()), seat.env.world_size.value(),
      agent_options(session.options), std::unordered_map<std::string, trpc::DeviceMap>{},
      std::vector<c10::Device>{}, std::move(requests));
  agent->setTypeResolver(std::make_shared<trpc::TypeResolver>(runtime::resolve_type));
  return agent;
}

void join(const std::shared_ptr<RpcSession>& joining, const runtime::RpcSeat& seat,
          const c10::intrusive_ptr<c10d::Store>& known_store) {
  // TensorPipe writes to sockets whose other end may be gone, without MSG_NOSIGNAL.
  const BlockedSignals in_threads_of_the_agent({SIGPIPE});
  RpcSession& session = *joining;
  const auto timeout =
      session.options.timeout.count() == 0 ? std::chrono::hours(24 * 365) : session.options.timeout;
  const auto store = session.store = runtime::rpc_store(seat, known_store, timeout);
  torch::distributed::autograd::DistAutogradContainer::init(seat.env.rank.value());
  const auto group = runtime::meet_over_gloo(store, seat, session.name, timeout);
  session.agent = make_agent(session, store, seat);
  for (const auto& worker : session.agent->getWorkerInfos()) session.names.insert(worker.name_);
  trpc::RpcAgent::setCurrentRpcAgent(session.agent);
  // A function that others call may call on, before this rank knows that all have come.
  runtime::set_rpc_session(joining);
  session.agent->start();
  runtime::gather_all(session, session.options.timeout);
  // Nobody leaves before the leader has told all.
  group->barrier()->wait();
}

Exception join_failure(const runtime::RpcSeat& seat, const std::string& name, const Options& options,
                       const std::string& why) {
  const std::string who = fmt::format("init_rpc: worker '{}', rank {} of {}, cannot join", name,
                                      seat.env.rank, seat.env.world_size);
  if (runtime::is_shared_name(why)) return {ErrorCode::kConfig, fmt::format("{}: {}", who, why)};
  if (!runtime::is_late_rank(why)) return {ErrorCode::kUnavailable, fmt::format("{}: {}", who, why)};
  return {ErrorCode::kTimeout,
          fmt::format(
              "{}{}; every rank of the job has to call init_rpc: {}", who,
              options.timeout.count() == 0
                  ? std::string()
                  : fmt::format(" within {:.3g} s", std::chrono::duration<double>(options.timeout).count()),
              why)};
}

/// Without a store that C++ ranks share, some may be in Python.
void join_as(const std::string& name, const Options& options, const c10::intrusive_ptr<c10d::Store>& store) {
  check_name(name);
  check_transports(options.transports);
  if (options.threads < 1)
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("init_rpc: Options::threads is {}; it has to be at least 1", options.threads));
  if (options.timeout.count() < 0)
    throw Exception(ErrorCode::kConfig, fmt::format("init_rpc: Options::timeout is {} ms; zero is for ever",
                                                    options.timeout.count()));
  runtime::refuse_names_of_operators();
  const runtime::RpcSeat seat = runtime::rpc_seat();
  if (g_rpc_was_used.exchange(true))
    throw Exception(ErrorCode::kConfig,
                    "init_rpc: this process has joined before; a worker joins once, and a restarted job "
                    "begins with new processes");
  auto session = std::make_shared<RpcSession>();
  session->name = name;
  session->options = options;
  session->world_size = seat.env.world_size.value();
  session->with_python = !store;
  try {
    join(session, seat, store);
    runtime::leave_before_statics_that_are_there();
  } catch (const std::exception& error) {
    runtime::close_rpc(*session);
    if (dynamic_cast<const Exception*>(&error) != nullptr) throw;
    throw join_failure(seat, name, options, runtime::without_stack(error.what()));
  }
}

}  // namespace

void init_rpc(const std::string& name, const Context& context, const Options& options) {
  join_as(name, options, context.store());
}
void init_rpc(const std::string& name, const Options& options) { join_as(name, options, nullptr); }

}  // namespace ddprun::rpc
