#include "launcher/report/events.h"

#include "launcher/report/lost_output_json.h"
#include "launcher/text/wall_time.h"
#include "rendezvous/base/signal_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace ddprun::launcher {
namespace {

using Json = nlohmann::ordered_json;

Json round_fields(const membership::Round& round) {
  const int number = membership::restart_count(round.seat.generation);
  return {{"generation", number}, {"restart_count", number}};
}

Json worker_fields(const membership::Round& round, const WorkerOutcome& worker) {
  Json fields = round_fields(round);
  fields["rank"] = worker.rank.value();
  fields["local_rank"] = worker.local_rank.value();
  fields["pid"] = worker.pid;
  return fields;
}

}  // namespace

Result<UniqueFd> open_events_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) {
    return Error(ErrorCode::kUsage,
                 fmt::format("--events \"{}\": cannot be opened: {}", path, std::strerror(errno)));
  }
  return file;
}

EventLog::EventLog(const Plan& plan, std::function<void(std::string_view line)> write_line)
    : write_(std::move(write_line)), job_(plan.job_tag), host_(plan.host.hostname) {
  write("job_started", {{"title", plan.title},
                        {"run_id", plan.options.run_id},
                        {"launcher_pid", getpid()},
                        {"command", plan.command},
                        {"local_world_size", plan.local_world_size.value()},
                        {"max_restarts", plan.options.max_restarts},
                        {"log_dir", or_null(plan.log_root)}});
}

void EventLog::write(const char* event, const Json& fields) {
  Json line{{"version", 1},
            {"time", format_wall_time(std::chrono::system_clock::now())},
            {"event", event},
            {"job", job_},
            {"host", host_}};
  line.update(fields);
  write_(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void EventLog::round_begins(const membership::Round& round) {
  Json fields = round_fields(round);
  fields["node_rank"] = round.seat.node_rank.value();
  fields["nodes"] = round.seat.nodes;
  fields["world_size"] = round.seat.world_size.value();
  fields["master_addr"] = round.master_addr;
  fields["master_port"] = round.master_port.value();
  write("generation_started", fields);
}

void EventLog::worker_spawned(const membership::Round& round, const WorkerOutcome& worker) {
  write("worker_spawned", worker_fields(round, worker));
}

void EventLog::worker_exited(const membership::Round& round, const WorkerOutcome& worker) {
  Json fields = worker_fields(round, worker);
  const bool is_killed = worker.status && worker.status->is_killed();
  fields["exit_code"] = worker.status && !is_killed ? Json(worker.status->code()) : Json();
  fields["signal"] = is_killed ? Json(signal_name(worker.status->signal())) : Json();
  fields["duration_ns"] = (worker.ended_at - worker.started_at).count();
  write("worker_exited", fields);
}

void EventLog::stopping(const membership::Round& round, StopReason reason, const std::string& why) {
  Json fields = round_fields(round);
  fields["reason"] = to_string(reason);
  fields["why"] = why;
  write("stopping", fields);
}

void EventLog::generation_ended(const GenerationOutcome& outcome) {
  const bool has_cause = outcome.root_cause.has_value();
  write("generation_ended",
        {{"generation", membership::restart_count(outcome.generation)},
         {"restart_count", membership::restart_count(outcome.generation)},
         {"reason", to_string(outcome.reason)},
         {"why", outcome.why},
         {"root_cause_rank", has_cause ? Json(outcome.workers[*outcome.root_cause].rank.value()) : Json()},
         {"duration_ns", (outcome.ended_at - outcome.started_at).count()}});
}

void EventLog::restarting(const membership::Restart& restart) {
  write("restarting", {{"restart_count", restart.restart_count}, {"delay_ns", restart.delay.count()}});
}

void EventLog::hang_found(const Hang& hang) {
  write("hang", {{"guilty", hang.guilty}, {"ends", hang.ends}, {"reason", hang.reason}, {"page", hang.page}});
}

void EventLog::straggler_found(const Straggler& straggler) {
  write("straggler", {{"rank", straggler.rank},
                      {"late_ns", static_cast<std::int64_t>(straggler.late_s * 1e9)},
                      {"share", straggler.share}});
}

void EventLog::job_ended(const JobOutcome& outcome, const std::string& report_file) {
  write("job_ended", {{"exit_code", outcome.exit_code},
                      {"reason", to_string(outcome.reason)},
                      {"why", outcome.why},
                      {"report", or_null(report_file)},
                      {"lost_output", lost_output_json(outcome.lost_output)}});
}

}  // namespace ddprun::launcher
