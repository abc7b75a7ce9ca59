#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/comm/backend/progress.h"
#include "worker/runtime/ddp/broadcast_bytes.h"
#include "worker/runtime/ddp/make_reducer.h"
#include "worker/runtime/ddp/optimizer_in_backward.h"
#include "worker/runtime/ddp/output_sink.h"
#include "worker/runtime/ddp/replica_check.h"
#include "worker/runtime/ddp/replica_state.h"
#include "worker/runtime/libtorch/reducer_access.h"
#include <ddprun/collectives.h>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <typeinfo>

namespace ddprun::runtime {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "DistributedDataParallel: " + why);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const ModuleView::Parameter& find_parameter(const ModuleView& view, const std::string& name,
                                            std::string_view option) {
  for (const auto& parameter : view.parameters) {
    if (parameter.name == name) return parameter;
  }
  refuse(fmt::format("{} names \"{}\", and the model has no parameter of that name", option, name));
}

void check_names(const ModuleView& view, const DistributedDataParallelOptions& options) {
  const std::vector<NamedTensor> buffers = view.buffers ? view.buffers() : std::vector<NamedTensor>{};
  for (const std::string& name : options.ignored) {
    const bool is_buffer =
        std::any_of(buffers.begin(), buffers.end(), [&](const auto& b) { return b.first == name; });
    if (!is_buffer) find_parameter(view, name, "option ignored");
  }
  for (const std::string& name : options.delay_all_reduce)
    find_parameter(view, name, "option delay_all_reduce");
  if (options.delay_all_reduce.empty() == options.reduce_delayed_when_ready.has_value()) {
    refuse("options delay_all_reduce and reduce_delayed_when_ready go together; set both or neither");
  }
}

// All on one type of device; returns the device of the first.
at::Device common_device(const std::vector<ModuleView::Parameter>& parameters,
                         const DistributedDataParallelOptions& options) {
  std::set<std::string> types;
  std::set<std::string> devices;
  for (const auto& parameter : parameters) {
    types.insert(c10::DeviceTypeName(parameter.tensor.device().type(), true));
    devices.insert(parameter.tensor.device().str());
  }
  if (types.size() > 1) {
    refuse(fmt::format(
        "the parameters are on devices of several types ({}); move the module to one type of device",
        fmt::join(types, ", ")));
  }
  const at::Device device = parameters.front().tensor.device();
  if (options.device_ids.empty() && !options.output_device) return device;
  if (device.is_cpu() || devices.size() > 1 || options.device_ids.empty()) {
    refuse(fmt::format(
        "device_ids [{}] and output_device {} are for a module on one GPU, and go together; the "
        "parameters are on {}",
        fmt::join(options.device_ids, ", "),
        options.output_device ? std::to_string(*options.output_device) : "unset", fmt::join(devices, ", ")));
  }
  if (options.device_ids.size() > 1 || (device.has_index() && device.index() != options.device_ids.front())) {
    refuse(fmt::format("device_ids is [{}]; expected the index of the one device of the parameters, {}",
                       fmt::join(options.device_ids, ", "), device.str()));
  }
  return device;
}

void check_bucket_caps(const DistributedDataParallelOptions& options) {
  if (options.bucket_cap_mb && *options.bucket_cap_mb <= 0) {
    refuse(fmt::format("bucket_cap_mb is {}; expected a number above 0 (MiB)", *options.bucket_cap_mb));
  }
  for (const double cap : options.bucket_cap_mb_list) {
    if (cap > 0) continue;
    refuse(fmt::format("bucket_cap_mb_list is [{}]; expected numbers above 0 (MiB)",
                       fmt::join(options.bucket_cap_mb_list, ", ")));
  }
}

void broadcast_everything(const ReplicaSync::State& state) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : state.view.parameters) {
    const bool is_ours = parameter.tensor.defined() && !contains(state.options.ignored, parameter.name);
    if (is_ours) tensors.push_back(parameter.tensor.detach());
  }
  if (state.options.broadcast_buffers) {
    for (const auto& [name, buffer] : state.buffers) tensors.push_back(buffer.detach());
  }
  if (!tensors.empty()) c10d::broadcast_coalesced(state.group.process_group(), tensors, kBroadcastBytes, 0);
}

std::vector<NamedTensor> synced_buffers(const ReplicaSync::State& state) {
  std::vector<NamedTensor> buffers = state.view.buffers ? state.view.buffers() : std::vector<NamedTensor>{};
  std::erase_if(buffers,
                [&](const NamedTensor& buffer) { return contains(state.options.ignored, buffer.first); });
  return buffers;
}

// The reducer's complaint about an unfinished reduction ends with "Parameter indices which did not receive
// grad for rank 1: 4, 5". Nothing for any other error.
std::vector<std::string> names_in_complaint(std::string_view complaint,
                                            const std::vector<ModuleView::Parameter>& reduced) {
  constexpr std::string_view kIntroduction = "Parameter indices which did not receive grad for rank ";
  std::vector<std::string> names;
  const std::size_t start = complaint.find(kIntroduction);
  if (start == std::string_view::npos) return names;
  std::string numbers(complaint.substr(complaint.find(':', start) + 1));
  numbers = numbers.substr(0, numbers.find_first_not_of("0123456789, "));
  std::replace(numbers.begin(), numbers.end(), ',', ' ');
  std::istringstream stream(numbers);
  for (std::size_t index = 0; stream >> index && index < reduced.size();)
    names.push_back(reduced[index].name);
  return names;
}

class FunctionHook final : public c10d::CppCommHookInterface<CommHook> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return state_(bucket);
  }
};

}  // namespace

bool ReplicaSync::State::is_ignored(const std::string& name) const {
  return contains(options.ignored, name) || contains(options.delay_all_reduce, name);
}

bool ReplicaSync::State::will_sync_buffers() const {
  return forward_sync && options.broadcast_buffers && !buffers.empty();
}

void ReplicaSync::State::claim_hook(const std::string& name) {
  if (reducer == nullptr)
    refuse("a communication hook has nothing to do: every parameter's reduction is delayed");
  if (has_comm_hook && low)
    refuse("option mixed_precision brings a communication hook of its own, and there can be one");
  if (has_comm_hook) refuse("a communication hook is registered already; there can be one");
  logger->set_comm_hook(name);
  has_comm_hook = true;
}

void ReplicaSync::State::sync_buffers(int from_rank) {
  const at::NoGradGuard no_grad;
  buffers = synced_buffers(*this);
  std::vector<at::Tensor> tensors;
  for (const auto& [name, buffer] : buffers) tensors.push_back(buffer);
  if (tensors.empty()) return;
  c10d::broadcast_coalesced(group.process_group(), tensors, kBroadcastBytes, from_rank);
}

void ReplicaSync::State::complain_about_missing_gradients(const std::vector<std::string>& names) const {
  std::string advice =
      "they took no part in the loss. Use all outputs of forward in the loss, or set find_unused_parameters "
      "if the model leaves parameters out on purpose";
  if (options.find_unused_parameters) {
    advice =
        "forward used them and backward left them out. Let backward compute all gradients, without inputs";
  } else if (options.static_graph) {
    advice =
        "they had one in the first step, and static_graph promises the same graph in every step; leave it "
        "out";
  }
  throw Exception(ErrorCode::kConfig,
                  fmt::format("DistributedDataParallel: the last backward gave no gradient to {} of {} "
                              "parameters on rank {}: {}; {}",
                              names.size(), reduced.size(), group.rank(), fmt::join(names, ", "), advice));
}

template <class Function>
auto ReplicaSync::State::guarded(Function&& function) {
  std::vector<std::string> names;
  try {
    return function();
  } catch (const c10::Error& error) {
    names = names_in_complaint(error.what(), reduced);
    if (names.empty()) throw;
  }
  complain_about_missing_gradients(names);
}

void ReplicaSync::State::rebuild_buckets() {
  std::optional<BucketAllocationScope> bucket_memory;
  if (reducer->should_rebuild_buckets()) bucket_memory.emplace(*group.process_group(), device);
  guarded([&] { return reducer->rebuild_buckets(); });
}

void ReplicaSync::State::make_logged_reducer() {
  if (options.mixed_precision) {
    std::vector<ModuleView::Parameter> frozen = view.parameters;
    std::erase_if(frozen, [&](const ModuleView::Parameter& parameter) {
      return !parameter.tensor.defined() || parameter.tensor.requires_grad() || is_ignored(parameter.name);
    });
    low = std::make_unique<LowPrecision>(*options.mixed_precision, reduced, frozen);
  }
  LoggedReducer made = make_reducer(view, reduced, group.process_group(), options, low.get());
  reducer = std::move(made.reducer);
  logger = std::move(made.logger);
  if (watch) watch->connect(*reducer);
  if (!low) return;
  low->connect(*reducer, watch.get());
  low->end();
  claim_hook("mixed_precision");
  reducer->register_comm_hook(std::make_unique<FunctionHook>(
      [this](c10d::GradBucket& bucket) { return low->reduce(bucket, group.size()); }));
  if (options.mixed_precision->buffer_dtype) cast_buffers(buffers, *options.mixed_precision->buffer_dtype);
}

ReplicaSync::ReplicaSync(ModuleView view, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                         DistributedDataParallelOptions options)
    : state_(std::make_shared<State>(State{.view = std::move(view),
                                           .group = Group(std::move(process_group)),
                                           .options = std::move(options)})) {
  State& state = *state_;
  check_bucket_caps(state.options);
  check_names(state.view, state.options);
  if (state.options.mixed_precision) check_mixed_precision(state.view, state.options);
  std::vector<ModuleView::Parameter> delayed;
  for (const auto& parameter : state.view.parameters) {
    if (!parameter.tensor.defined() || !parameter.tensor.requires_grad()) continue;
    if (contains(state.options.delay_all_reduce, parameter.name)) {
      delayed.push_back(parameter);
    } else if (!contains(state.options.ignored, parameter.name)) {
      state.reduced.push_back(parameter);
    } else {
      continue;
    }
    state.averaged.push_back(parameter);
  }
  if (state.reduced.empty() && delayed.empty()) {
    refuse(fmt::format(
        "none of the model's {} parameters requires a gradient; there is nothing to train in parallel",
        state.view.parameters.size()));
  }
  state.device = common_device(state.reduced.empty() ? delayed : state.reduced, state.options);
  if (!state.options.device_ids.empty()) state.inputs.emplace(state.device);
  state.buffers = synced_buffers(state);
  if (!delayed.empty()) {
    const at::Tensor& trigger = find_parameter(state.view, *state.options.reduce_delayed_when_ready,
                                               "option reduce_delayed_when_ready")
                                    .tensor;
    state.delayed = std::make_unique<DelayedReduction>(state.group, delayed, trigger);
  }
  state.must_agree_on_buckets = !state.options.init_sync;
  if (state.options.init_sync) {
    verify_replicas(state.group, state.view.parameters, state.options.ignored,
                    state.options.broadcast_buffers ? state.buffers : std::vector<NamedTensor>{});
    broadcast_everything(state);
  }
  if (state.reduced.empty()) return;
  if (state.options.on_bypassed_forward == BypassPolicy::kThrow) {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& parameter : state.reduced) named.emplace_back(parameter.name, parameter.tensor);
    state.watch = std::make_unique<BypassWatch>(named);
  }
  state.make_logged_reducer();
}

ReplicaSync::~ReplicaSync() = default;

void ReplicaSync::before_forward() {
  State& state = *state_;
  const bool with_gradients = at::GradMode::is_enabled();
  if (state.reducer == nullptr) {
    if (with_gradients) state.agree_on_buckets();
    return;
  }
  const bool is_in_join = join_options() != nullptr;
  if (!with_gradients && is_in_join) {
    // It has no step that ranks without input could shadow, and these make no such forward.
    if (state.low) state.low->before_forward();
    return;
  }
  const std::string moved = with_gradients && state.watch ? state.watch->moved_parameter() : "";
  if (!moved.empty()) {
    check_finished();  // a backward that failed has its own words
    refuse(moved);
  }
  if (with_gradients && state.options.static_graph && !state.gradient_sync &&
      !state.has_queued_static_reduction) {
    // The reducer would count its hooks with those of the first backward that reduces, and wait for as many in each.
    refuse(
        "static_graph learns the graph from the first backward, which has to reduce; make the first one "
        "without "
        "no_sync");
  }
  if (with_gradients && state.gradient_sync) {
    state.logger->set_runtime_stats_and_log();
    state.reducer->prepare_for_forward();
    Progress::instance().count_step();
  }
  if (auto work = notify_join()) {
    state.reducer->set_forward_pass_work_handle(std::move(work),
                                                join_options()->divide_by_initial_world_size);
  } else if (with_gradients && state.gradient_sync) {
    // The reducer keeps the last one, and would divide by the number of ranks that had input then.
    state.reducer->set_forward_pass_work_handle({}, /*useStaticWorldSize=*/true);
  }
  if (with_gradients && is_in_join) state.synchronised_batch_norm = state.synchronises_batch_norm();
  // What is delayed is reduced under no_sync, too.
  const bool may_reduce = with_gradients && (state.gradient_sync || state.delayed || is_in_join);
  if (may_reduce || state.will_sync_buffers()) state.agree_on_buckets();
  if (with_gradients) state.rebuild_buckets();
  if (state.will_sync_buffers()) state.sync_buffers(is_in_join ? state.agree_on_rank(true) : 0);
  if (is_in_join) state.tell_joined_ranks_about_sync();
  if (state.low) state.low->before_forward();
}

bool ReplicaSync::places_inputs() const { return state_->inputs || state_->low; }

at::Tensor ReplicaSync::place_input(const at::Tensor& tensor) {
  const at::Tensor placed = state_->inputs ? state_->inputs->place(tensor) : tensor;
  return state_->low ? state_->low->cast_input(placed) : placed;
}

bool ReplicaSync::wants_outputs() const {
  const State& state = *state_;
  if (state.reducer == nullptr) return false;
  return state.options.static_graph ? !state.has_queued_static_reduction
                                    : state.options.find_unused_parameters;
}

void ReplicaSync::after_forward(const std::vector<at::Tensor*>& outputs) {
  State& state = *state_;
  if (state.delayed) state.delayed->attach_gradients();
  if (state.reducer == nullptr) return;
  std::vector<at::Tensor> tensors;
  for (const at::Tensor* output : outputs) tensors.push_back(*output);
  if (state.low) state.low->after_forward();
  const bool with_gradients = at::GradMode::is_enabled();
  if (with_gradients && state.gradient_sync) {
    state.forward_sync = true;
    const bool search = state.options.find_unused_parameters && !state.options.static_graph;
    state.guarded([&] { state.reducer->prepare_for_backward(search ? tensors : std::vector<at::Tensor>{}); });
  } else if (with_gradients || join_options() == nullptr) {
    state.forward_sync = false;  // in join, a forward without gradients is this rank's alone
  }
  if (with_gradients && state.watch) {
    state.watch->forward_ran(state.gradient_sync ? BypassWatch::Gradients::kReduced
                                                 : BypassWatch::Gradients::kAccumulatedLocally);
  }
  if (!wants_outputs()) return;
  const std::vector<at::Tensor> replaced = pass_through_sink(tensors, [weak = std::weak_ptr(state_)] {
    const std::shared_ptr<State> alive = weak.lock();
    if (!alive || !alive->options.static_graph || alive->has_queued_static_reduction) return;
    torch::autograd::Engine::get_default_engine().queue_callback(
        [alive] { alive->reducer->delay_all_reduce(); });
    alive->has_queued_static_reduction = true;
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) *outputs[i] = replaced[i];
}

void ReplicaSync::abandon_forward() {
  if (state_->low) state_->low->abandon_forward();
}

bool ReplicaSync::gradient_sync() const { return state_->gradient_sync; }

void ReplicaSync::set_gradient_sync(bool on) { state_->gradient_sync = on; }

void ReplicaSync::register_comm_hook(CommHook hook) {
  state_->claim_hook(c10::demangle(hook.target_type().name()));
  state_->reducer->register_comm_hook(std::make_unique<FunctionHook>(std::move(hook)));
}

void ReplicaSync::register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
  const c10d::CommHookInterface& given = *hook;
  state_->claim_hook(c10::demangle(typeid(given).name()));
  state_->reducer->register_comm_hook(std::move(hook));
}

void ReplicaSync::register_builtin_comm_hook(BuiltinCommHookType type) {
  const bool is_plain = type == BuiltinCommHookType::ALLREDUCE;
  state_->claim_hook(is_plain ? "BuiltinCommHookType.ALLREDUCE" : "BuiltinCommHookType.FP16_COMPRESS");
  state_->reducer->register_builtin_comm_hook(type);
}

void ReplicaSync::apply_optimizer_in_backward(FusedOptimizer& optimizer) {
  check_in_backward(optimizer, state_->reduced);
  state_->claim_hook("optimizer in backward");
  c10d::Reducer& reducer = *state_->reducer;
  reducer.register_comm_hook(
      std::make_unique<FunctionHook>(optimizer_in_backward(reducer, state_->group, optimizer)));
  reducer.set_optimizer_in_backward();
  state_->has_optimizer_in_backward = true;
}

c10::DDPLoggingData ReplicaSync::logging_data() const {
  return state_->logger == nullptr ? c10::DDPLoggingData() : state_->logger->get_ddp_logging_data();
}

void ReplicaSync::check_finished() {
  if (state_->reducer == nullptr) return;
  state_->guarded([&] { state_->reducer->check_finalized(); });
}

void ReplicaSync::sync_buffers() { state_->sync_buffers(0); }

void ReplicaSync::update_process_group(const Group& group) {
  State& state = *state_;
  if (state.reducer) state.reducer->reset_state();
  if (state.low) state.low->end();
  if (state.has_optimizer_in_backward) {
    // What a backward that failed has left; nobody else resets it, and the next one would add to it.
    for (const auto& parameter : state.reduced) parameter.tensor.mutable_grad().reset();
  }
  if (!group.is_member()) return;
  state.group = group;
  state.must_agree_on_buckets = state.has_changed_group = true;
  state.forward_sync = true;  // as on the ranks that are new: all send buffers, or none
  if (state.reducer) {
    state.reducer->update_process_group(group.process_group());
    forget_parameters_of_buckets(*state.reducer);
  }
  if (state.delayed) state.delayed->set_group(group);
}

std::vector<at::Tensor> ReplicaSync::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : state_->averaged) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace ddprun::runtime
