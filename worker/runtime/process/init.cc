#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/host_name.h"
#include "worker/runtime/comm/agreement.h"
#include "worker/runtime/comm/gpu/plugin.h"
#include "worker/runtime/comm/join_world.h"
#include "worker/runtime/comm/placement.h"
#include "worker/runtime/process/memory/freed_memory.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/init.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>

namespace ddprun {

struct Context::State {
  WorkerEnv env;
  bool is_launched = false;
  std::string log_dir;
  runtime::Placement placement;
  std::string backend;
  at::Device device{at::kCPU};
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  bool is_shut_down = false;
};

namespace {

using runtime::Placement;
using runtime::PlacementFacts;
using runtime::PlacementRequest;

PlacementRequest request_of(const InitOptions& options) {
  PlacementRequest request{.backend = options.backend, .device = options.device};
  if (request.backend == "auto") request.backend = process_env(env_name::kBackend).value_or("auto");
  if (request.backend.empty()) request.backend = "auto";
  return request;
}

PlacementFacts look_around(const PlacementRequest& request, const WorkerEnv& env) {
  PlacementFacts facts{.nccl_is_built = runtime::is_gpu_plugin_built(),
                       .local_rank = env.local_rank.value(),
                       .local_world_size = env.local_world_size.value(),
                       .world_size = env.world_size.value()};
  if (runtime::wants_no_gpu(request) || !runtime::may_have_gpu()) return facts;
  if (facts.nccl_is_built) {
    facts.gpu_count = runtime::open_gpu_plugin(&facts.why_no_gpu);
    if (facts.gpu_count == 0 && facts.why_no_gpu.empty())
      facts.why_no_gpu = "the driver shows none to this process";
  } else {
    facts.why_no_gpu = "this build has no libddprun_nccl.so";
  }
  return facts;
}

/// The N-th init() of a rank in a generation meets the N-th of the others, out of reach of the keys of one before, of
/// this process or of another program of the worker. torchrun may go on with more or fewer ranks in the same store.
c10::intrusive_ptr<c10d::Store> part_of_this_init(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const WorkerEnv& env) {
  const std::int64_t number = store->add(fmt::format("inits/{}/{}", env.world_size, env.rank), 1);
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("init/{}/{}", env.world_size, number), store);
}

/// What this rank can do, for the others to hear.
runtime::Offer offer_of(const PlacementRequest& request, const PlacementFacts& facts) {
  runtime::Offer offer{.host = host_name(),
                       .backend = request.backend,
                       .why_no_gpu = facts.why_no_gpu,
                       .nccl_is_built = facts.nccl_is_built};
  const Result<Placement> alone = runtime::choose_placement(request, facts);
  if (!alone) {
    offer.refusal = alone.error().message();
  } else if (const int gpu = runtime::gpu_for(request, facts); gpu >= 0) {
    // Ranks with other names of their host are not on one host to NCCL, and may have one and the same GPU.
    offer.gpu = fmt::format("{} {}", runtime::gpu_id(gpu), process_env("NCCL_HOSTID").value_or(""));
  }
  for (std::string* text : {&offer.gpu, &offer.why_no_gpu, &offer.refusal, &offer.backend})
    std::replace(text->begin(), text->end(), '\n', ' ');
  return offer;
}

/// Backend and device, chosen on ground that all ranks share. Collective.
Placement place(const PlacementRequest& request, PlacementFacts facts, c10d::Store& store,
                const WorkerEnv& env, std::chrono::milliseconds timeout) {
  const Result<runtime::CommonGround> ground = runtime::agree_on_ground(
      store, env.rank.value(), env.world_size.value(), offer_of(request, facts), timeout);
  if (!ground) runtime::throw_error(ground.error().with("init"));
  facts.ranks_per_gpu = ground->ranks_per_gpu;
  facts.nccl_is_built = ground->nccl_is_built;
  const Result<Placement> placement = runtime::choose_placement(request, facts);
  if (!placement) runtime::throw_error(placement.error().with("init"));
  return *placement;
}

void report(const Context::State& state, const InitOptions& options) {
  const std::string line =
      fmt::format("backend {} on {} ({})", state.backend, state.device.str(), state.placement.reason);
  if (options.log) {
    options.log(line);
  } else if (state.env.rank.value() == 0 && state.is_launched) {
    fmt::print(stderr, "ddprun: {}\n", line);
  }
}

}  // namespace

Context init(const InitOptions& options) {
  if (options.keep_freed_memory) runtime::keep_freed_memory();
  auto state = std::make_shared<Context::State>();
  state->is_launched = is_launched(process_env);
  if (state->is_launched) {
    Result<WorkerEnv> env = parse_worker_env(process_env);
    if (!env) runtime::throw_error(env.error().with("init"));
    state->env = *env;
  }
  state->log_dir = process_env(env_name::kLogDir).value_or("");
  const PlacementRequest request = request_of(options);
  const PlacementFacts facts = look_around(request, state->env);
  if (state->is_launched) {
    state->store = part_of_this_init(runtime::connect_store(state->env, options.timeout), state->env);
  } else {
    state->store = c10::make_intrusive<c10d::HashStore>();
  }
  state->placement = place(request, facts, *state->store, state->env, options.timeout);
  if (state->placement.gpu >= 0) {
    state->device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(state->placement.gpu));
  }
  state->process_group =
      runtime::make_process_group(state->store, state->env, state->placement, options.timeout);
  state->backend = to_string(backends_at(state->placement));
  report(*state, options);
  return Context(std::move(state));
}

Context::Context(std::shared_ptr<State> state) : state_(std::move(state)) {}

int Context::rank() const { return state_->env.rank.value(); }
int Context::local_rank() const { return state_->env.local_rank.value(); }
int Context::world_size() const { return state_->env.world_size.value(); }
int Context::local_world_size() const { return state_->env.local_world_size.value(); }
int Context::restart_count() const { return state_->env.restart_count; }
bool Context::is_launched() const { return state_->is_launched; }
const std::string& Context::run_id() const { return state_->env.run_id; }
const std::string& Context::log_dir() const { return state_->log_dir; }
const at::Device& Context::device() const { return state_->device; }
const c10::intrusive_ptr<c10d::Store>& Context::store() const { return state_->store; }
const c10::intrusive_ptr<c10d::ProcessGroup>& Context::process_group() const { return state_->process_group; }
const std::string& Context::backend() const { return state_->backend; }
const std::string& Context::backend_reason() const { return state_->placement.reason; }

void Context::shutdown() {
  if (state_->is_shut_down) return;
  state_->is_shut_down = true;
  if (world_size() > 1) state_->process_group->barrier()->wait();
  state_->process_group->shutdown();
}

}  // namespace ddprun
