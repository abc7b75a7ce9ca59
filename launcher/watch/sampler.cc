#include "launcher/watch/sampler.h"

#include "launcher/process/process_table.h"
#include "launcher/report/running_jobs.h"
#include "launcher/text/text.h"
#include "launcher/watch/nvml.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/work_process.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/base/open_file.h"
#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun::launcher::watch {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The last line of the end of a file.
std::string last_line_of(const std::string& path) {
  constexpr std::size_t kTail = 2048;
  const Result<std::string> tail = load_tail_of_foreign_file(path, kTail);
  if (!tail) return {};
  const std::vector<std::string_view> lines = last_lines(*tail, 1);
  return lines.empty() ? std::string() : printable(lines.front());
}

void read_output(RankSample& sample, const std::string& log_dir) {
  if (log_dir.empty()) return;
  for (const char* name : {"/stdout.log", "/stderr.log"}) {
    const std::string path = log_dir + name;
    const std::optional<double> since = seconds_since_growth(path);
    if (!since || *since >= sample.last_output_s.value_or(*since + 1)) continue;
    sample.last_output_s = since;
    sample.last_line = last_line_of(path);
  }
}

}  // namespace

std::optional<double> seconds_since_growth(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
    return std::nullopt;
  const double written =
      static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
  return std::max(0.0, seconds_of(CLOCK_REALTIME) - written);
}

void RankSampler::find_work() {
  // What has recorded is what was looked for; a script may go on to its next program.
  constexpr int kSeldom = 5;
  const bool is_there = work_ != 0 && why::start_of(work_) == started_;
  if (is_there && until_next_search_-- > 0) return;
  until_next_search_ = kSeldom;
  if (is_there && record_->has_own()) return record_->search();
  const pid_t work = why::find_work_process(worker_, read_processes());
  if (!is_there || work != work_) {
    work_ = work;
    started_ = why::start_of(work);
    record_.emplace(work);
  }
  record_->search();
}

RankSample RankSampler::sample(const std::string& log_dir) {
  RankSample sample;
  read_output(sample, log_dir);
  find_work();
  constexpr int kUser = 14, kSystem = 15, kResident = 24;
  const std::string stat = read_text(fmt::format("/proc/{}/stat", work_));
  const std::optional<ProcessEntry> process = parse_stat(stat);
  if (!process || process->has_ended()) return sample;
  sample.pid = work_;
  sample.state = process->state;
  sample.cpu_s = seconds_of_ticks(stat_number(stat, kUser) + stat_number(stat, kSystem));
  sample.memory = stat_number(stat, kResident) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t kFew = 16;
  if (why::Recorder recorder = record_->read(kFew); recorder.next > 0) sample.recorder = std::move(recorder);
  sample.progress = record_->progress();
  sample.progress.phase = printable(sample.progress.phase);
  return sample;
}

std::optional<JobSample> JobSampler::sample() {
  std::optional<PublishedJob> state = parse_job_state(read_job_state(launcher_));
  if (!state) return std::nullopt;
  if (state->launcher != launcher_) {
    // In a pid namespace of its own the launcher knows its workers by other numbers.
    for (const JobFacts& job : find_jobs(read_own_processes())) {
      if (job.launcher == launcher_) state->workers = job.state.workers;
    }
  }
  JobSample sample;
  sample.command = command_;
  sample.host = host_name();
  sample.state = *state;
  sample.at_s = seconds_of(CLOCK_BOOTTIME);
  const std::vector<GpuReading> gpus = read_gpus();
  std::map<pid_t, RankSampler> known;
  for (int local = 0; local < state->local_world_size; ++local) {
    const auto index = static_cast<std::size_t>(local);
    const pid_t worker = index < state->workers.size() ? state->workers[index] : 0;
    RankSample rank;
    if (worker != 0) {
      const auto old = ranks_.find(worker);
      const auto place =
          known.emplace(worker, old == ranks_.end() ? RankSampler(worker) : std::move(old->second)).first;
      rank = place->second.sample(state->log_dir.empty() ? std::string()
                                                         : fmt::format("{}/{}", state->log_dir, local));
    }
    rank.rank = state->base_rank + local;
    rank.local_rank = local;
    if (!gpus.empty() && rank.pid != 0) rank.gpu = gpu_use(gpus, gpu_hints(rank.pid, local));
    sample.ranks.push_back(std::move(rank));
  }
  ranks_ = std::move(known);
  sample.taken_ns = static_cast<std::int64_t>(seconds_of(CLOCK_REALTIME) * 1e9);
  return sample;
}

}  // namespace ddprun::launcher::watch
