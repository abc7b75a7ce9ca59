#include "launcher/cli/signal_names.h"
#include "launcher/plan/plan.h"
#include "launcher/text/number_list.h"
#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/shell_quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ddprun::launcher {
namespace {

std::string workers_phrase(const Plan& plan) {
  const int workers = plan.local_world_size.value();
  return fmt::format("{} {} on {}", workers, workers == 1 ? "worker" : "workers", plan.host.hostname);
}

std::string store_phrase(const Plan& plan) {
  const MeetingPlace& meeting = plan.meeting;
  return meeting.port.value() == 0 ? fmt::format("{}, a free port", meeting.host)
                                   : fmt::format("{} port {}", meeting.host, meeting.port);
}

std::string device_phrase(const Plan& plan, const WorkerSpec& worker) {
  const auto local_rank = static_cast<std::size_t>(worker.local_rank.value());
  if (plan.options.virtual_local_rank) {
    const bool is_named = local_rank < plan.host.visible_devices.size();
    return fmt::format("cuda:0, which is device {}",
                       is_named ? plan.host.visible_devices[local_rank] : std::to_string(local_rank));
  }
  if (plan.host.gpu_count == 0) return "cpu";
  if (local_rank >= plan.host.visible_devices.size())
    return "cpu, or a shared GPU: there are fewer GPUs than workers";
  return fmt::format("cuda:{}, which is device {}", local_rank, plan.host.visible_devices[local_rank]);
}

std::string stream_phrase(const Plan& plan, const StreamSpec& stream, const WorkerSpec& worker,
                          std::string_view file) {
  std::string text;
  if (stream.to_console) {
    text = plan.options.log_funnel ? "the coordinator's console" : "console";
    if (!stream.prefix.empty()) text += fmt::format(", each line after \"{}\"", stream.prefix);
  }
  if (stream.to_file) text += fmt::format("{}{}/{}", text.empty() ? "" : ", and ", worker.log_dir, file);
  return text.empty() ? "/dev/null" : text;
}

/// What the worker's environment has that ours has not, or has otherwise.
std::vector<std::string> environment_difference(const Plan& plan, const WorkerSpec& worker) {
  std::set<std::string> ours;
  for (const auto& [name, value] : plan.host.environment) ours.insert(fmt::format("{}={}", name, value));
  std::vector<std::string> difference;
  for (const std::string& line : worker.environment) {
    if (ours.count(line) == 0) difference.push_back(line);
  }
  return difference;
}

std::string describe_worker(const Plan& plan, const WorkerSpec& worker) {
  std::string text = fmt::format("\nrank {} (local rank {})\n", worker.rank, worker.local_rank);
  text += fmt::format("  command  {}\n", shell_quote(worker.argv));
  text += fmt::format("  cpus     {}\n", worker.cpus.empty() ? "not bound" : format_number_list(worker.cpus));
  text += fmt::format("  device   {}\n", device_phrase(plan, worker));
  text += fmt::format("  stdin    {}\n", worker.inherit_stdin ? "ours" : "/dev/null");
  text += fmt::format("  stdout   {}\n", stream_phrase(plan, worker.out, worker, "stdout.log"));
  text += fmt::format("  stderr   {}\n", stream_phrase(plan, worker.err, worker, "stderr.log"));
  std::string_view label = "set";
  for (const std::string& line : environment_difference(plan, worker)) {
    text += fmt::format("  {:<8} {}\n", label, shell_quote(line));
    label = "";
  }
  return text;
}

std::string_view listener_phrase(membership::CoordinatorPlace place) {
  switch (place) {
    case membership::CoordinatorPlace::kHere:
      return "where this node listens";
    case membership::CoordinatorPlace::kElsewhere:
      return "where another node listens";
    case membership::CoordinatorPlace::kIfOurs:
      return "where the node listens to which that address belongs, or ddprun coordinator";
  }
  return "";
}

}  // namespace

std::string describe_meeting(const Plan& plan) {
  const Options& options = plan.options;
  const MeetingPlace& meeting = plan.meeting;
  const int workers = plan.local_world_size.value();
  const std::string count = options.is_elastic()
                                ? fmt::format("{} to {}", options.min_nodes, options.max_nodes)
                                : std::to_string(options.max_nodes);
  const std::string place = meeting.port.value() == 0
                                ? fmt::format("{}, at a port that the kernel chooses", meeting.host)
                                : fmt::format("{} port {}", meeting.host, meeting.port);
  std::string text = fmt::format("nodes      {}, {}; they meet at {}, {}\n", count,
                                 meeting.node_rank ? fmt::format("this is node {}", *meeting.node_rank)
                                                   : "this node's rank is not known yet",
                                 place, listener_phrase(meeting.coordinator));
  const std::string same =
      fmt::format("as if each node had {} {}", workers, workers == 1 ? "worker" : "workers");
  text += fmt::format(
      "           the ranks below are {}{}; the rendezvous decides\n",
      meeting.node_rank && !options.is_elastic()
          ? std::string()
          : fmt::format("those of node {} of {}, ", expected_round(plan).seat.node_rank, options.max_nodes),
      same);
  return text;
}

std::string describe(const Plan& plan, const std::vector<WorkerSpec>& workers) {
  const Options& options = plan.options;
  std::string text = fmt::format("job        {}: {}, job id {}\n", shell_quote(plan.title),
                                 workers_phrase(plan), printable(plan.options.run_id));
  text +=
      options.max_nodes == 1 ? fmt::format("store      {}\n", store_phrase(plan)) : describe_meeting(plan);
  text += fmt::format("logs       {}\n", plan.log_root.empty() ? "none" : printable(plan.log_root));
  text += fmt::format("restarts   {}\n",
                      options.max_restarts == 0 ? "none" : fmt::format("up to {}", options.max_restarts));
  text += fmt::format("stopping   SIGTERM, and SIGKILL {} later; on {}\n",
                      format_duration(options.shutdown_timeout),
                      join_signal_names(options.signals_to_handle, ", "));
  if (options.job_timeout) text += fmt::format("time limit {}\n", format_duration(*options.job_timeout));
  for (const WorkerSpec& worker : workers) text += describe_worker(plan, worker);
  return text;
}

}  // namespace ddprun::launcher
