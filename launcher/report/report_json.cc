#include "launcher/report/failure_report.h"
#include "launcher/report/lost_output_json.h"
#include "launcher/text/wall_time.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

using Json = nlohmann::ordered_json;

Json worker_json(const WorkerOutcome& worker) {
  Json json{{"rank", worker.rank.value()},
            {"local_rank", worker.local_rank.value()},
            {"verdict", to_string(worker.end_kind)},
            {"pid", worker.pid == 0 ? Json() : Json(worker.pid)},
            {"exit_code", Json()},
            {"signal", Json()}};
  if (worker.status) {
    if (worker.status->is_killed()) {
      json["signal"] = signal_name(worker.status->signal());
    } else {
      json["exit_code"] = worker.status->code();
    }
    json["core_dumped"] = worker.status->core_dumped();
  }
  if (worker.spawn_error) json["spawn_error"] = worker.spawn_error->message();
  if (worker.stopped_with) json["stopped_with"] = signal_name(*worker.stopped_with);
  if (worker.pid != 0) {
    json["started"] = format_wall_time(worker.started_wall);
    json["ended"] = worker.status ? Json(format_wall_time(worker.ended_wall)) : Json();
    json["duration_ns"] = worker.status ? Json((worker.ended_at - worker.started_at).count()) : Json();
  }
  json["exception"] = or_null(worker.ending.error);
  json["symptom"] = or_null(worker.ending.symptom);
  if (worker.is_killed_for_hang()) json["hang"] = worker.hang.reason;
  if (worker.was_suspended) json["was_suspended"] = true;
  if (!worker.stuck_in.empty()) json["stuck_in"] = worker.stuck_in;
  json["stdout"] = or_null(worker.stdout_path);
  json["stderr"] = or_null(worker.stderr_path);
  json["error_file"] = or_null(worker.error_file);
  return json;
}

Json root_cause_rank(const GenerationOutcome& generation) {
  if (generation.root_cause) return generation.workers[*generation.root_cause].rank.value();
  return generation.told_cause ? Json(generation.told_cause->worker->rank.value()) : Json();
}

Json generation_json(const GenerationOutcome& generation) {
  Json workers = Json::array();
  for (const WorkerOutcome& worker : generation.workers) workers.push_back(worker_json(worker));
  return {{"generation", membership::restart_count(generation.generation)},
          {"restart_count", membership::restart_count(generation.generation)},
          {"reason", to_string(generation.reason)},
          {"why", generation.why},
          {"duration_ns", (generation.ended_at - generation.started_at).count()},
          {"log_dir", or_null(generation.log_dir)},
          {"root_cause_rank", root_cause_rank(generation)},
          {"restart_why", or_null(generation.restart_why)},
          {"leftovers", generation.leftovers},
          {"survivors", generation.survivors},
          {"workers", std::move(workers)}};
}

Json root_json(const RootCause& root, const ReportContext& context) {
  Json json = worker_json(root.worker);
  json["host"] = root.host.empty() ? context.hostname : root.host;
  json["diagnosis"] = root.diagnosis ? Json(*root.diagnosis) : Json();
  const bool has_traceback = root.exception && root.exception->is_of_this_end();
  json["traceback"] = has_traceback ? Json(root.exception->traceback.shown) : Json();
  json["stderr_tail"] = root.speaker().stderr_tail;
  // Of one that left with 0 or stood still: who lost it, whose diagnosis, traceback and stderr these are.
  json["victim_rank"] = root.victim ? Json(root.victim->rank.value()) : Json();
  json["error"] = root.error_file ? Json{{"message", root.error_file->message},
                                         {"stack", root.error_file->stack},
                                         {"timestamp", root.error_file->timestamp}}
                                  : Json();
  return json;
}

Json straggler_json(const Straggler& straggler) {
  return {{"rank", straggler.rank}, {"late_s", straggler.late_s}, {"share", straggler.share}};
}

}  // namespace

std::string report_json(const JobOutcome& outcome, const std::optional<RootCause>& root,
                        const ReportContext& context) {
  Json generations = Json::array();
  for (const GenerationOutcome& generation : outcome.generations)
    generations.push_back(generation_json(generation));
  const Json document{{"version", 1},
                      {"job", context.title},
                      {"run_id", context.run_id},
                      {"host", context.hostname},
                      {"exit_code", outcome.exit_code},
                      {"reason", to_string(outcome.reason)},
                      {"signal", outcome.signal == 0 ? Json() : Json(signal_name(outcome.signal))},
                      {"why", outcome.why},
                      {"error", outcome.error ? Json(outcome.error->message()) : Json()},
                      {"restarts",
                       {{"used", outcome.restarts_used},
                        {"allowed", outcome.restarts_allowed.value_or(context.max_restarts)}}},
                      {"hang", context.hang_page.empty() ? Json() : Json(context.hang_page)},
                      {"straggler", context.straggler ? straggler_json(*context.straggler) : Json()},
                      {"root_cause", root ? root_json(*root, context) : Json()},
                      {"lost_output", lost_output_json(outcome.lost_output)},
                      {"generations", std::move(generations)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
