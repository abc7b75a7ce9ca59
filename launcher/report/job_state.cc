#include "launcher/report/job_state.h"

#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kName = "ddprun-job-state";
constexpr int kPidWidth = 10;

std::string pid_column(pid_t pid) { return fmt::format("{:>{}}\n", pid, kPidWidth); }

std::vector<pid_t> parse_pids(std::string_view text) {
  std::vector<pid_t> pids;
  for (std::size_t at = 0; at + kPidWidth < text.size(); at += kPidWidth + 1) {
    pids.push_back(std::atoi(std::string(text.substr(at, kPidWidth)).c_str()));
  }
  return pids;
}

}  // namespace

std::string to_text(const PublishedJob& state) {
  std::string text;
  for (const pid_t pid : state.workers) text += pid_column(pid);
  const Json json{{"launcher", state.launcher},
                  {"job", state.tag},
                  {"run_id", state.run_id},
                  {"phase", state.phase},
                  {"awaits", state.awaits},
                  {"local_world_size", state.local_world_size},
                  {"world_size", state.world_size},
                  {"restart_count", state.restart_count},
                  {"restarts_used", state.restarts_used},
                  {"max_restarts", state.max_restarts},
                  {"base_rank", state.base_rank},
                  {"log_dir", state.log_dir}};
  return text + json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<PublishedJob> parse_job_state(std::string_view text) {
  const std::size_t brace = std::min(text.find('{'), text.size());
  const Json json = Json::parse(text.substr(brace), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return PublishedJob{.launcher = json.at("launcher"),
                        .tag = json.at("job"),
                        .run_id = json.at("run_id"),
                        .phase = json.at("phase"),
                        .awaits = json.value("awaits", ""),
                        .local_world_size = json.at("local_world_size"),
                        .world_size = json.at("world_size"),
                        .restart_count = json.at("restart_count"),
                        .restarts_used = json.at("restarts_used"),
                        .max_restarts = json.at("max_restarts"),
                        .base_rank = json.at("base_rank"),
                        .log_dir = json.at("log_dir"),
                        .workers = parse_pids(text.substr(0, brace))};
  } catch (const Json::exception&) {
    return std::nullopt;  // of another version of ddprun
  }
}

JobStatePublisher::JobStatePublisher(const Plan& plan)
    : plan_(plan), file_(::memfd_create(kName, MFD_CLOEXEC)) {
  state_.launcher = ::getpid();
  state_.tag = plan.job_tag;
  state_.run_id = plan.options.run_id;
  state_.local_world_size = plan.local_world_size.value();
  state_.max_restarts = plan.options.max_restarts;
  state_.workers.assign(static_cast<std::size_t>(state_.local_world_size), 0);
  publish("starting");
}

void JobStatePublisher::waiting(const std::string& text) {
  state_.awaits = text;
  publish(state_.phase);
}

void JobStatePublisher::round_begins(const membership::Round& round) {
  state_.awaits.clear();
  state_.world_size = round.seat.world_size.value();
  state_.restart_count = membership::restart_count(round.seat.generation);
  state_.restarts_used = round.seat.restarts_used;
  state_.max_restarts = round.seat.restarts_allowed.value_or(plan_.options.max_restarts);
  state_.base_rank = round.seat.base_rank.value();
  state_.log_dir = attempt_directory(plan_, round.seat.generation);
  publish("running");
}

void JobStatePublisher::worker_spawned(const membership::Round&, const WorkerOutcome& worker) {
  publish_worker(worker.local_rank, worker.pid);
}

void JobStatePublisher::worker_exited(const membership::Round&, const WorkerOutcome& worker) {
  publish_worker(worker.local_rank, 0);
}

void JobStatePublisher::stopping(const membership::Round&, StopReason, const std::string&) {
  publish("stopping");
}

void JobStatePublisher::generation_ended(const GenerationOutcome& outcome) {
  const bool awaits_others = outcome.reason == StopReason::kSucceeded && plan_.options.max_nodes > 1;
  publish(awaits_others ? "waiting" : "ending");
}

void JobStatePublisher::restarting(const membership::Restart& restart) {
  state_.restart_count = restart.restart_count;
  if (restart.number > 0) state_.restarts_used = restart.number;
  publish("restarting");
}

// Longer than the text before it or padded to its length with blanks, so that the file never has to be cut.
void JobStatePublisher::publish(std::string phase) {
  if (!file_) return;
  state_.phase = std::move(phase);
  std::string text = to_text(state_);
  const off_t size = ::lseek(file_.get(), 0, SEEK_END);
  if (size > 0 && text.size() < static_cast<std::size_t>(size))
    text.resize(static_cast<std::size_t>(size), ' ');
  static_cast<void>(::pwrite(file_.get(), text.data(), text.size(), 0) < 0);
}

void JobStatePublisher::publish_worker(LocalRank local_rank, pid_t pid) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  state_.workers[index] = pid;
  if (!file_) return;
  const std::string column = pid_column(pid);
  static_cast<void>(
      ::pwrite(file_.get(), column.data(), column.size(), static_cast<off_t>(index * column.size())) < 0);
}

std::string read_job_state(pid_t pid) {
  const std::string wanted = fmt::format("/memfd:{} (deleted)", kName);
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (const std::string& name : names_in(folder)) {
    const std::string file = folder + "/" + name;
    std::error_code unreadable;
    if (fs::read_symlink(file, unreadable) != wanted) continue;
    // Twice, because the launcher may be writing.
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::string text = read_text(file);
      if (parse_job_state(text)) return text;
    }
  }
  return {};
}

}  // namespace ddprun::launcher
