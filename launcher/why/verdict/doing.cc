#include "launcher/why/verdict/doing.h"

#include "launcher/text/text.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/doing_words.h"
#include "launcher/why/verdict/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace ddprun::launcher::why {
namespace {

std::optional<Activity> held_activity(const RankFacts& facts) {
  const ProcessLook& now = facts.second;
  if (now.is_frozen) return Activity{Doing::kFrozen, "is frozen by a control group (freezer)", {}};
  if (is_traced(now)) {
    const std::string who =
        now.tracer == 0 ? std::string("a debugger")
                        : fmt::format("a debugger: pid {} ({})", now.tracer, printable(now.tracer_name));
    return Activity{Doing::kTraced, fmt::format("is held by {}", who), {}};
  }
  if (is_stopped(now)) return Activity{Doing::kStopped, "is stopped by a signal (SIGSTOP)", {}};
  // One that has slept and come back between the looks is in the next wait, as who reads a slow disk is.
  const bool is_same_wait = facts.first.threads.front().call == now.threads.front().call &&
                            facts.first.threads.front().switches == now.threads.front().switches;
  if (is_in_kernel(now) && is_in_kernel(facts.first) && is_same_wait) {
    const ThreadLook& main = now.threads.front();
    const std::string call = name_of_call(main.call.number);
    const std::string where =
        fmt::format("{}{}", call.empty() ? std::string() : fmt::format(": {}()", call),
                    facts.object.path.empty() ? std::string() : " of " + place(facts.object));
    const auto server = std::find_if(facts.file_servers.begin(), facts.file_servers.end(),
                                     [](const Child& process) { return process.is_busy; });
    if (server != facts.file_servers.end())
      return Activity{
          Doing::kMoves,
          fmt::format("waits for the file system's server{}; pid {} ({}), which serves one, does something",
                      where, server->pid, printable(server->name)),
          {}};
    return Activity{Doing::kInKernel,
                    fmt::format("is stuck in the kernel{} ({}, in {}), which mostly no signal ends", where,
                                main.state == "D" ? "state D" : "it waits for the file system's server",
                                main.wait_channel),
                    {}};
  }
  return std::nullopt;
}

/// CUDA spins while it waits for a GPU, and NCCL while it connects ranks, before anything is recorded.
std::optional<Activity> nccl_activity(const RankFacts& facts, double percent) {
  const double main_s = facts.second.threads.front().cpu_s - facts.first.threads.front().cpu_s;
  if (!has_nccl(facts.second) || main_s < kBusyShare * (facts.second.at_s - facts.first.at_s))
    return std::nullopt;
  const PythonThread* const main = main_python(facts);
  const bool is_in_synchronize = main != nullptr && main->frames.front().function == "synchronize" &&
                                 is_torch(main->frames.front().file);
  static constexpr std::array<std::string_view, 4> kWaits{"StreamSynchronize", "DeviceSynchronize",
                                                          "EventSynchronize", "CtxSynchronize"};
  if (is_in_synchronize || std::any_of(kWaits.begin(), kWaits.end(),
                                       [&](std::string_view name) { return has_main_native(facts, name); }))
    return Activity{.doing = Doing::kWaitsForGpu,
                    .words = fmt::format("waits for the GPU ({:.0f} % of a CPU)", percent),
                    .frames = {},
                    .is_in_synchronize = true};
  const std::vector<Collective> open = pending(facts.recorder);
  if (std::any_of(open.begin(), open.end(), [](const Collective& entry) { return entry.backend == kNccl; }))
    return Activity{
        Doing::kWaitsForGpu, fmt::format("computes or waits for the GPU ({:.0f} % of a CPU)", percent), {}};
  if (!open.empty()) return std::nullopt;
  std::string operation = torch_operation(facts);
  static constexpr std::array<std::string_view, 14> kCollectives{"all_reduce",
                                                                 "all_gather",
                                                                 "all_gather_into_tensor",
                                                                 "reduce_scatter",
                                                                 "reduce_scatter_tensor",
                                                                 "all_to_all",
                                                                 "all_to_all_single",
                                                                 "broadcast",
                                                                 "reduce",
                                                                 "scatter",
                                                                 "gather",
                                                                 "barrier",
                                                                 "send",
                                                                 "recv"};
  const bool is_collective =
      std::find(kCollectives.begin(), kCollectives.end(), operation) != kCollectives.end();
  // DistributedDataParallel makes its first ones from C++: that frame of torch is the last before them.
  const bool is_in_ddp =
      has_frame(main, "_verify_param_shape_across_processes") || has_frame(main, "_sync_module_states");
  if (is_in_ddp && !is_collective) operation = "DistributedDataParallel";
  if (!is_collective && !is_in_ddp && !has_main_native(facts, "ncclCommInit")) return std::nullopt;
  return Activity{Doing::kWaits,
                  fmt::format("waits{} until NCCL has connected the ranks of its group",
                              operation.empty() ? std::string() : " in " + operation),
                  {}};
}

std::optional<Activity> busy_activity(const RankFacts& facts) {
  const double seconds = facts.second.at_s - facts.first.at_s;
  if (seconds <= 0) return std::nullopt;
  const double faults = major_faults_per_second(facts.first, facts.second);
  if (faults > kManyFaults) {
    return Activity{
        Doing::kSwaps,
        fmt::format("waits for memory to come back from disk ({:.0f} major page faults a second)", faults),
        {}};
  }
  const double busy = busy_share(facts.first, facts.second);
  const double runs = running_share(facts.first, facts.second);
  const double throttled = (facts.second.throttled_s - facts.first.throttled_s) / seconds;
  constexpr double kHardlyRuns = 0.25;
  // All of a group lose time when its quota is used up, also who sleeps.
  const bool wants_to_run = facts.first.threads.front().state == "R" ||
                            facts.second.threads.front().state == "R" || busy > kBusyShare;
  if (throttled > kBusyShare && runs < kHardlyRuns * 2 && wants_to_run) {
    return Activity{
        Doing::kStarved,
        fmt::format("gets {:.0f} % of a CPU: the CPU quota of its control group is used up", runs * 100),
        {}};
  }
  if (busy > 2 * kBusyShare && runs < kHardlyRuns) {
    return Activity{
        Doing::kStarved, fmt::format("gets {:.0f} % of a CPU, though it wants to run", runs * 100), {}};
  }
  if (busy > kBusyShare) {
    if (auto spinning = nccl_activity(facts, runs * 100)) return spinning;
    return Activity{Doing::kComputes, fmt::format("computes ({:.0f} % of a CPU)", runs * 100), {}};
  }
  constexpr std::uint64_t kMuch = 256 << 10;
  const std::uint64_t read = bytes_read(facts.first, facts.second);
  const std::uint64_t written = bytes_written(facts.first, facts.second);
  if (std::max(read, written) > kMuch) {
    return Activity{Doing::kMoves,
                    read >= written
                        ? fmt::format("reads ({})", rate(static_cast<double>(read) / seconds))
                        : fmt::format("writes ({})", rate(static_cast<double>(written) / seconds)),
                    {}};
  }
  return std::nullopt;
}

/// Whether what it waits for may be a process that it has started, which not every one is.
bool may_wait_for_child(const RankFacts& facts) {
  const SystemCall& call = facts.second.threads.front().call;
  const PythonThread* const main = main_python(facts);
  // Python waits with a time-out for a child by sleeping between two looks at it.
  return is_wait_for_child(call.number) || is_poll(call.number) || is_sleep(call.number) ||
         (reads(call.number) && facts.object.path.starts_with("pipe:")) || has_frame(main, "_try_get_data") ||
         has_frame(main, "_get_data") || has_frame(main, "_try_wait");
}

/// Data that comes or goes over TCP: on the connection that its main thread waits for, or so much on others that a
/// thread must be at it.
std::optional<Activity> transfer_activity(const RankFacts& facts) {
  constexpr double kMuch = 4096;  // a second; who tells a service that it lives says less
  const double seconds = facts.second.at_s - facts.first.at_s;
  const Connection* most = nullptr;
  for (const Connection& connection : facts.connections) {
    const std::uint64_t moved = connection.came + connection.went;
    const bool is_awaited = facts.object.path.starts_with("socket:") && !facts.object.is_store &&
                            connection.remote == facts.object.other_end;
    const bool counts = is_awaited ? moved > 0 : static_cast<double>(moved) > kMuch * seconds;
    if (counts && (most == nullptr || moved > most->came + most->went)) most = &connection;
  }
  if (most == nullptr) return std::nullopt;
  return Activity{Doing::kMoves,
                  fmt::format("{}; {} go over its connection to {}",
                              call_words(facts.second.threads.front(), facts.object),
                              rate(static_cast<double>(most->came + most->went) / seconds), most->remote),
                  {}};
}

/// What gets on without much CPU of its own: a process that it has started does, or data comes from the network.
std::optional<Activity> moving_activity(const RankFacts& facts) {
  const bool may_be_any = may_wait_for_child(facts);
  const auto busy = std::find_if(facts.children.begin(), facts.children.end(), [&](const Child& child) {
    return child.is_busy && (child.feeds || may_be_any);
  });
  if (busy != facts.children.end())
    return Activity{
        Doing::kMoves, fmt::format("waits for {}, which {}", child_name(*busy), child_does(*busy)), {}};
  constexpr std::uint64_t kSome = 3;
  const ThreadLook& now = facts.second.threads.front();
  const bool has_come = facts.second.read_bytes > facts.first.read_bytes ||
                        std::any_of(facts.connections.begin(), facts.connections.end(),
                                    [](const Connection& connection) { return connection.came > 0; });
  const bool is_network = facts.object.path.starts_with("socket:") || now.wait_channel == "sk_wait_data" ||
                          is_poll(now.call.number);
  const bool wakes = now.switches >= facts.first.threads.front().switches + kSome;
  if (is_network && wakes && (has_come || !has_timeout(now.call)))
    return Activity{Doing::kMoves,
                    fmt::format("{}, and again and again something comes", call_words(now, facts.object)),
                    {}};
  if (flushes(facts.first, facts.second)) {
    const ThreadLook& flushing = is_flush(now.call.number) ? now : facts.first.threads.front();
    return Activity{Doing::kMoves,
                    fmt::format("{}, and page after page is written", call_words(flushing, facts.object)),
                    {}};
  }
  if (auto transfer = transfer_activity(facts)) return transfer;
  constexpr double kRecently = 10;  // a server that is slow, and not gone
  if (facts.object.silent_s >= 0 && facts.object.silent_s < kRecently)
    return Activity{Doing::kMoves,
                    fmt::format("{}; the other end of that connection was heard {:.0f} s ago",
                                call_words(now, facts.object), std::max(1.0, facts.object.silent_s)),
                    {}};
  return std::nullopt;
}

/// By the names of functions, for ranks without a flight recorder, and for what it does not record.
std::optional<Activity> waiting_activity(const RankFacts& facts) {
  const std::string operation = torch_operation(facts);
  static constexpr std::array<std::string_view, 6> kPeer{
      "recv", "send", "irecv", "isend", "recv_object_list", "send_object_list"};
  const bool is_peer = std::find(kPeer.begin(), kPeer.end(), operation) != kPeer.end();
  if (is_peer || has_native(facts, "RecvWork::wait") || has_native(facts, "SendWork::wait")) {
    const std::string name = !operation.empty()                    ? operation
                             : has_native(facts, "RecvWork::wait") ? "recv"
                                                                   : "send";
    return Activity{.doing = Doing::kWaitsForPeer,
                    .words = fmt::format("waits in {} for another rank", name),
                    .frames = {},
                    .awaits_group = name == "monitored_barrier"};
  }
  // The last one asks and sleeps by turns: worker/runtime/comm/roll_call.
  if (has_main_native(facts, "TCPStore::") || has_main_native(facts, "PrefixStore::") ||
      has_main_native(facts, "TCPClient::") || has_main_native(facts, "ddprun::runtime::await_keys") ||
      facts.object.is_store) {
    std::string what = "waits for a key in the store that nobody has set";
    const bool is_in_new_group = has_frame(main_python(facts), "new_group");
    if (operation == "init_process_group" || operation == "_new_process_group_helper")
      what = fmt::format("waits for the other ranks to meet ({})",
                         is_in_new_group ? "new_group" : "init_process_group");
    if (is_main_in(facts, "ddprun::init")) what = "waits for the other ranks to meet (ddprun::init)";
    return Activity{
        .doing = Doing::kWaitsForStore, .words = what, .frames = {}, .awaits_group = is_in_new_group};
  }
  if (has_native(facts, "shm::Barrier::wait") || has_native(facts, "ShmBackend::"))
    return Activity{Doing::kWaits, "waits in a collective over shared memory", {}};
  if (has_main_native(facts, "c10d::Work::wait") || has_main_native(facts, "finalize_backward") ||
      has_main_native(facts, "ncclGroupEnd") || has_main_native(facts, "WorkNCCL"))
    return Activity{Doing::kWaits, operation.empty() ? "waits in a collective" : "waits in " + operation, {}};
  if (!operation.empty() && facts.native.empty()) return Activity{Doing::kWaits, "waits in " + operation, {}};
  return std::nullopt;
}

Activity blocked_activity(const RankFacts& facts) {
  const ThreadLook& now = facts.second.threads.front();
  const PythonThread* const main = main_python(facts);
  if (has_frame(main, "_try_get_data") || has_frame(main, "_get_data")) {
    Activity activity{Doing::kBlocked, "waits for a DataLoader worker", {}};
    if (const std::string children = children_words(facts); !children.empty())
      activity.words += ": " + children;
    return activity;
  }
  if (const PythonThread* const holder = holder_of_gil(facts);
      holder != nullptr && is_futex(now.call.number)) {
    return {Doing::kBlocked,
            fmt::format("waits for Python's own lock (GIL), which thread {} holds", printable(holder->name)),
            shown_frames(holder->frames)};
  }
  const bool is_same_call = facts.first.threads.front().call == now.call;
  if (!is_same_call || now.call.number < 0)
    return {Doing::kUnknown, "goes from call to call without much CPU", {}};
  Activity activity{
      is_sleep(now.call.number) ? Doing::kSleeps : Doing::kBlocked, call_words(now, facts.object), {}};
  if (is_futex(now.call.number) && waits_for_an_item(main)) {
    activity.words = "waits for an item of a queue (Queue.get)";
    if (facts.python.size() == 1) activity.words += ", and has no other thread that could put one into it";
  }
  if (main != nullptr && main->owns_gil && main->tid == facts.pid)
    activity.words += ", and holds Python's own lock (GIL) meanwhile";
  if (is_futex(now.call.number) && has_frame(main, "join"))
    activity.words = "waits for one of its own threads to end (join)";
  if (is_futex(now.call.number)) activity.words += helpers_words(facts);
  if (is_wait_for_child(now.call.number) || has_frame(main, "_try_wait")) {
    activity.words = "waits for a child process to end";
    if (const std::string children = children_words(facts); !children.empty())
      activity.words += ": " + children;
  }
  return activity;
}

}  // namespace

std::string_view to_string(Doing doing) {
  switch (doing) {
    case Doing::kEnded:
      return "ended";
    case Doing::kStopped:
      return "stopped";
    case Doing::kTraced:
      return "traced";
    case Doing::kFrozen:
      return "frozen";
    case Doing::kInKernel:
      return "in_kernel";
    case Doing::kWaits:
      return "waits";
    case Doing::kWaitsForPeer:
      return "waits_for_peer";
    case Doing::kWaitsForStore:
      return "waits_for_store";
    case Doing::kComputes:
      return "computes";
    case Doing::kWaitsForGpu:
      return "waits_for_gpu";
    case Doing::kMoves:
      return "moves";
    case Doing::kStarved:
      return "starved";
    case Doing::kSwaps:
      return "swaps";
    case Doing::kSleeps:
      return "sleeps";
    case Doing::kBlocked:
      return "blocked";
    case Doing::kUnknown:
      return "unknown";
  }
  return "";
}

bool waits(Doing doing) {
  return doing == Doing::kWaits || doing == Doing::kWaitsForPeer || doing == Doing::kWaitsForStore;
}

bool gets_on(Doing doing) {
  return doing == Doing::kComputes || doing == Doing::kWaitsForGpu || doing == Doing::kMoves ||
         doing == Doing::kStarved || doing == Doing::kSwaps;
}

bool awaits_others(const Activity& activity) {
  return waits(activity.doing) || (activity.is_in_open && gets_on(activity.doing));
}

bool is_held(Doing doing) {
  return doing == Doing::kStopped || doing == Doing::kTraced || doing == Doing::kFrozen ||
         doing == Doing::kInKernel;
}

std::vector<Collective> pending(const Recorder& recorder) {
  std::vector<Collective> open;
  std::copy_if(recorder.entries.begin(), recorder.entries.end(), std::back_inserter(open),
               [](const Collective& entry) { return !entry.is_over; });
  return open;
}

Activity activity_of(const RankFacts& facts) {
  if (facts.pid == 0) return {Doing::kEnded, "has ended", {}};
  if (was_read(facts) && facts.second.threads.front().state == "Z")
    return {Doing::kEnded, "has ended, which its launcher has not noticed", {}};
  if (!was_read(facts))
    return {Doing::kUnknown, facts.problem.empty() ? std::string("is not known") : facts.problem, {}};
  Activity activity;
  const std::vector<Collective> open = pending(facts.recorder);
  if (auto held = held_activity(facts)) {
    activity = std::move(*held);
  } else if (auto busy = busy_activity(facts)) {
    activity = std::move(*busy);
  } else if (!open.empty()) {
    activity = open.front().is_peer ? Activity{Doing::kWaitsForPeer, message_words(open.front()), {}}
                                    : Activity{Doing::kWaits, {}, {}};
  } else if (auto waiting = waiting_activity(facts)) {
    activity = std::move(*waiting);
  } else if (auto moving = moving_activity(facts)) {
    activity = std::move(*moving);
  } else {
    activity = blocked_activity(facts);
  }
  // Somebody else's `ddprun why` stops it for a moment, so that what it is in cannot be read.
  if (is_looked_at(facts.second) && !waits(activity.doing) && !gets_on(activity.doing))
    activity = {
        Doing::kMoves, fmt::format("is looked at by another ddprun (pid {})", facts.second.tracer), {}};
  activity.is_in_open = !open.empty();
  if (activity.frames.empty()) {
    const PythonThread* const main = main_python(facts);
    activity.frames = main != nullptr ? shown_frames(main->frames) : native_frames(facts);
    const bool is_for_children = activity.words.find("DataLoader") != std::string::npos;
    if (is_for_children) {
      std::vector<Frame> theirs = child_frames(facts);
      theirs.resize(std::min<std::size_t>(theirs.size(), 1));
      activity.frames.insert(activity.frames.begin(), theirs.begin(), theirs.end());
    }
  }
  return activity;
}

}  // namespace ddprun::launcher::why
