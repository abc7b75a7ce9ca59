#include "launcher/watch/metrics_text.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace ddprun::launcher::watch {
namespace {

std::string in_quotes(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') value += '\\';
    value += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return value + "\"";
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

using Value = std::function<std::optional<double>(const RankSample& rank, const RankNumbers& numbers)>;

struct RankMetric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  Value value;
};

const std::vector<RankMetric>& rank_metrics() {
  static const std::vector<RankMetric> kMetrics{
      {"ddprun_rank_up", "gauge", "Whether the rank's process is there.",
       [](const RankSample& rank, const RankNumbers&) { return rank.pid != 0 ? 1 : 0; }},
      {"ddprun_rank_cpu_seconds_total", "counter", "CPU time of the rank's process.",
       [](const RankSample& rank, const RankNumbers&) -> std::optional<double> {
         return rank.pid == 0 ? std::nullopt : std::optional(rank.cpu_s);
       }},
      {"ddprun_rank_memory_bytes", "gauge", "Resident memory of the rank's process.",
       [](const RankSample& rank, const RankNumbers&) -> std::optional<double> {
         return rank.pid == 0 ? std::nullopt : std::optional(static_cast<double>(rank.memory));
       }},
      {"ddprun_rank_gpu_utilization_ratio", "gauge",
       "Share of the time in which anything ran on the rank's GPU.",
       [](const RankSample& rank, const RankNumbers&) {
         return rank.gpu ? rank.gpu->utilization : std::nullopt;
       }},
      {"ddprun_rank_gpu_memory_bytes", "gauge", "Memory in use on the rank's GPU, by anybody.",
       [](const RankSample& rank, const RankNumbers&) {
         return rank.gpu ? std::optional(static_cast<double>(rank.gpu->memory)) : std::nullopt;
       }},
      {"ddprun_rank_steps_total", "counter", "Training steps that the rank has done, where it tells.",
       [](const RankSample& rank, const RankNumbers&) -> std::optional<double> {
         return rank.progress.step < 0 ? std::nullopt
                                       : std::optional(static_cast<double>(rank.progress.step));
       }},
      {"ddprun_rank_collectives_total", "counter", "Collectives that the rank has begun.",
       [](const RankSample&, const RankNumbers& numbers) -> std::optional<double> {
         return numbers.collectives ? std::optional(static_cast<double>(*numbers.collectives)) : std::nullopt;
       }},
      {"ddprun_rank_in_collective_seconds", "gauge",
       "For how long the rank has been in its oldest collective that has not ended.",
       [](const RankSample&, const RankNumbers& numbers) -> std::optional<double> {
         return numbers.collectives ? std::optional(numbers.in_collective_s) : std::nullopt;
       }},
      {"ddprun_rank_late_seconds", "gauge",
       "By how much the rank comes after the first at collectives, on average.",
       [](const RankSample&, const RankNumbers& numbers) -> std::optional<double> {
         return numbers.collectives ? std::optional(numbers.late_s) : std::nullopt;
       }},
      {"ddprun_rank_last_output_seconds", "gauge", "Since the rank's logs grew.",
       [](const RankSample& rank, const RankNumbers&) { return rank.last_output_s; }}};
  return kMetrics;
}

}  // namespace

std::string metrics_text(const JobSample& now) {
  const PublishedJob& state = now.state;
  const std::string job = fmt::format("job={},run_id={}", in_quotes(state.tag), in_quotes(state.run_id));
  std::string text = head("ddprun_job_info", "gauge", "The job of this launcher.");
  text += fmt::format("ddprun_job_info{{{},phase={}}} 1\n", job, in_quotes(state.phase));
  text += head("ddprun_job_world_size", "gauge", "Ranks of the job on all nodes.");
  text += fmt::format("ddprun_job_world_size{{{}}} {}\n", job, state.world_size);
  text += head("ddprun_job_restarts_total", "counter", "Restarts of the job so far.");
  text += fmt::format("ddprun_job_restarts_total{{{}}} {}\n", job, state.restart_count);
  const std::vector<RankNumbers> rows = numbers_of(now, nullptr);
  for (const RankMetric& metric : rank_metrics()) {
    std::string lines;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::optional<double> value = metric.value(now.ranks[i], rows[i]);
      if (value)
        lines += fmt::format("{}{{{},rank=\"{}\"}} {}\n", metric.name, job, now.ranks[i].rank, *value);
    }
    if (!lines.empty()) text += head(metric.name, metric.type, metric.help) + lines;
  }
  return text;
}

}  // namespace ddprun::launcher::watch
