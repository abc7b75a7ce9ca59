#include "launcher/commands/run_job.h"

#include "launcher/agent/agent.h"
#include "launcher/agent/job_settings.h"
#include "launcher/cli/reply.h"
#include "launcher/commands/kept_files.h"
#include "launcher/output/console_wait.h"
#include "launcher/output/log_file.h"
#include "launcher/output/output.h"
#include "launcher/plan/entrypoint.h"
#include "launcher/plan/host.h"
#include "launcher/plan/plan.h"
#include "launcher/process/own_descriptors.h"
#include "launcher/report/events.h"
#include "launcher/report/job_state.h"
#include "launcher/report/observer_list.h"
#include "launcher/report/reporter.h"
#include "launcher/text/text.h"
#include "launcher/watch/metrics_server.h"
#include "launcher/watch/tell_numbers.h"
#include "launcher/why/desk/desk.h"
#include "launcher/why/hang/hang_watch.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/shell_quote.h"
#include "rendezvous/base/signals.h"
#include "rendezvous/config/job_config.h"

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

/// Eight letters and digits that no other run has.
std::string random_suffix() {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz012345";
  std::array<unsigned char, 8> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  std::string suffix;
  for (const unsigned char byte : bytes) suffix += kAlphabet[byte % kAlphabet.size()];
  return suffix;
}

/// "train.json: 2 problems: train.json:3:5: /train/epochz: unknown key; …". A place in the file that is shown
/// with a caret stays here: on one line it shows nothing.
std::string in_one_line(const std::string& message) {
  const std::vector<std::string_view> lines = split_lines(message);
  std::string text(lines.front());
  if (message.find("^ here") != std::string::npos) return text;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t begin = std::min(lines[i].find_first_not_of(' '), lines[i].size());
    text += fmt::format("{}{}", i == 1 ? ": " : "; ", lines[i].substr(begin));
  }
  return text;
}

/// Says what keeps this node from starting; the other nodes hear it in one line.
Error joins_all_the_same(const Error& error) {
  refuse_in_lines("ddprun", error);
  print_all(STDERR_FILENO, "ddprun: it joins the job all the same, so that the other nodes hear of it\n");
  return {error.code(), in_one_line(error.message())};
}

/// A job file, checked and completed as the worker will see it.
Result<config::JobConfig> load_job(const Plan& plan) {
  Result<config::JobConfig> job =
      config::load_job_config(plan.options.entrypoint, job_overrides(plan.options));
  if (!job) return job;
  const auto backend = job->values.find("backend");
  if (backend != job->values.end() && *backend == "nccl") {
    if (Result<void> enough = check_gpus(plan); !enough) return enough.error().with(plan.options.entrypoint);
  }
  return job;
}

/// What the job file says of hangs.
why::JobHangTimeout hang_timeout_of(const config::JobConfig& job) {
  const std::string key = "hang_timeout_s";
  const auto origin = job.origins.find("/" + key);
  return {.seconds = job.values.at(key).get<double>(),
          .is_asked = origin != job.origins.end() && origin->second.kind != config::OriginKind::kDefault};
}

/// Whether the job file wants states of its ranks to be kept in memory.
bool keeps_memory(const config::JobConfig& job) {
  return job.values.at("checkpoint").at("memory_every_steps").get<std::int64_t>() > 0;
}

/// Makes the job's log directory now, so that a place that cannot be written is a wrong command line and not
/// a failure.
Result<void> make_log_directory(const Plan& plan) {
  if (plan.log_root.empty()) return ok();
  const Result<void> made = make_directories(plan.log_root);
  if (made) return ok();
  const std::string flag = plan.log_root_is_temporary ? std::string("temporary directory")
                                                      : fmt::format("--log-dir \"{}\"", plan.options.log_dir);
  return Error(ErrorCode::kUsage,
               fmt::format("{}: {}; name a directory that can be written", flag, made.error().message()));
}

int print_dry_run(const Plan& plan, const std::string& job_text) {
  std::string text = describe(plan, worker_specs(plan, expected_round(plan)));
  if (!job_text.empty()) text += fmt::format("\n{}\n{}", shell_quote(plan.options.entrypoint), job_text);
  return answer(text);
}

/// Directories of ours that nobody wrote into are not left behind in /tmp.
void remove_empty_logs(const Plan& plan, JobOutput& output) {
  if (!plan.log_root_is_temporary) return;
  output.files_beside().make(
      plan.log_root, 0,
      [root = plan.log_root] {
        remove_empty_log_directories(root);
        return ok();
      },
      [](const Result<void>&) {});
}

/// Runs the plan with everything that watches it.
int run_watched(Plan plan, const rlimit& open_files, const why::HangLimits& hang_limits, Logger& logger) {
  boost::asio::io_context io(1);
  std::optional<UniqueFd> events_file;
  if (!plan.options.events_file.empty()) {
    Result<UniqueFd> file = open_events_file(plan.options.events_file);  // a FIFO waits for its reader
    if (!file) return refuse(file.error());
    events_file = std::move(*file);
  }
  // Whatever can hang, on a dead file system, a silent name server or a stuck stderr, comes while signals
  // still end this process.
  Result<HostAddresses> addresses = look_up_meeting(plan.meeting, plan.options.max_nodes == 1);
  if (!addresses) return refuse(addresses.error());
  plan.meeting.addresses = std::move(*addresses);
  if (Result<void> made = make_log_directory(plan); !made) return refuse(made.error());
  std::optional<KeptFiles> memory;  // as long as there are workers
  if (plan.keeps_memory) {
    Result<KeptFiles> made = KeptFiles::make(plan.local_world_size.value());
    if (!made) return refuse(made.error());
    memory.emplace(std::move(*made));
    plan.kept_memory = memory->names();
  }
  const Result<std::unique_ptr<SignalSource>> signals = SignalSource::open(io, agent_signals(plan));
  if (!signals) return refuse(signals.error());
  JobOutput output(io, output_options(plan));
  Reporter reporter(
      plan, [&](std::string_view text) { output.write_launcher_line(text); }, output.files_beside());
  JobStatePublisher state(plan);
  std::vector<Observer*> watchers{&reporter, &state};
  std::optional<watch::MetricsServer> metrics;
  if (plan.options.metrics) {
    Result<watch::MetricsServer> server =
        watch::MetricsServer::start(*plan.options.metrics, plan.options.entrypoint);
    if (!server) return refuse(server.error());
    metrics.emplace(std::move(*server));
    output.write_launcher_line(fmt::format("ddprun: metrics at {}\n", metrics->address()));
  }
  std::optional<EventLog> events;
  why::QuietSince quiet;
  why::HangWatch hangs({.io = io,
                        .plan = plan,
                        .quiet = quiet,
                        .print = [&](std::string_view page) { output.write_launcher_line(page); },
                        .note_end = [&](int rank, const HangEnd& end,
                                        const std::string& page) { reporter.note_hang(rank, end, page); },
                        .tell_hang =
                            [&](const Hang& hang) {
                              if (events) events->hang_found(hang);
                            },
                        .tell_straggler =
                            [&](const Straggler& straggler) {
                              reporter.note_straggler(straggler);
                              if (events) events->straggler_found(straggler);
                            }},
                       hang_limits);
  watchers.push_back(&hangs);
  if (events_file) {
    Outlet& outlet = output.add_outlet(*events_file, plan.options.events_file);
    events_file.reset();
    events.emplace(plan, [&](std::string_view line) { outlet.write(line); });
    watchers.push_back(&*events);
  }
  why::Desk looks(io, watch::tell_numbers, quiet);
  ObserverList observer(std::move(watchers));
  const Result<JobOutcome> outcome = run_agent(
      plan, AgentDeps{.io = io,
                      .signals = **signals,
                      .output = output,
                      .logger = logger,
                      .open_files = open_files,
                      .observer = observer,
                      .worker_specs = worker_specs,
                      .account_of = [&](const WorkerOutcome& worker) { return reporter.account_of(worker); },
                      .hang_of = [&](Rank rank) { return reporter.hang_of(rank); },
                      .on_end = [&](const JobOutcome& end) { reporter.finish(end); },
                      .on_output_done =
                          [&](const JobOutcome& end) {
                            remove_empty_logs(plan, output);
                            reporter.finish_output(end);
                            if (events) events->job_ended(end, reporter.report_file());
                          },
                      .looks = &looks});
  if (outcome) return outcome->exit_code;
  output.say(outcome.error().message());
  remove_empty_logs(plan, output);
  ConsoleWait wait(io, output);
  (*signals)->start([&](const ReceivedSignal& signal) {
    const std::vector<int>& ending = plan.options.signals_to_handle;
    if (std::find(ending.begin(), ending.end(), signal.number) != ending.end()) wait.end();
  });
  wait.start(ConsoleWait::Patience::kTenSeconds, [&] {
    output.close();
    (*signals)->close();
  });
  io.restart();
  io.run();
  return to_exit_code(outcome.error().code());
}

}  // namespace

int run_job(const Options& options, Logger& logger) {
  const HostFacts host = read_host(options.numa_binding ? Topology::kRead : Topology::kSkip);
  Result<Plan> plan = make_plan(options, host, random_suffix());
  if (!plan) return refuse(plan.error());

  if (plan->cannot_start) plan->cannot_start = joins_all_the_same(*plan->cannot_start);
  std::string job_text;
  std::optional<why::JobHangTimeout> hang_timeout;
  if (entrypoint_kind(options) == EntrypointKind::kJob && !plan->cannot_start) {
    const Result<config::JobConfig> job = load_job(*plan);
    if (!job) {
      if (!is_waited_for(options)) return refuse_in_lines("ddprun", job.error());
      plan->cannot_start = joins_all_the_same(job.error());
    } else {
      hang_timeout = hang_timeout_of(*job);
      plan->keeps_memory = keeps_memory(*job);
      if (options.dry_run) job_text = config::describe(*job);
    }
  }
  if (options.dry_run) return print_dry_run(*plan, job_text);

  const int workers = plan->local_world_size.value();
  const Result<rlimit> open_files = raise_open_files(
      fmt::format("a job of {} worker{} here", workers, workers == 1 ? "" : "s"), needed_descriptors(*plan));
  if (!open_files) return refuse(open_files.error());
  return run_watched(std::move(*plan), *open_files, why::hang_limits(options, hang_timeout), logger);
}

}  // namespace ddprun::launcher
