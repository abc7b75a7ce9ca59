#include "launcher/why/hang/hang_watch.h"

#include "launcher/process/process_table.h"
#include "launcher/why/look/proc_look.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>

namespace ddprun::launcher::why {
namespace {

double in_seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

HangLimits hang_limits(const Options& options, const std::optional<JobHangTimeout>& job) {
  constexpr std::chrono::milliseconds kUnasked{60'000};
  const JobHangTimeout timeout = options.hang_timeout
                                     ? JobHangTimeout{in_seconds(*options.hang_timeout), true}
                                     : job.value_or(JobHangTimeout{});
  const bool is_asked_to_end = timeout.is_asked && timeout.seconds > 0;
  return {.report_s = in_seconds(options.hang_report.value_or(kUnasked)),
          .timeout_s = timeout.seconds,
          .is_asked = options.hang_report || is_asked_to_end,
          .is_timeout_asked = is_asked_to_end,
          .timeout_name = options.hang_timeout ? "--hang-timeout" : "/hang_timeout_s"};
}

void HangWatch::round_begins(const membership::Round& round) {
  stop();
  targets_.clear();
  has_killed_ = false;
  picture_ = JobPicture{.tag = parts_.plan.job_tag,
                        .launcher = ::getpid(),
                        .command = fmt::format("ddprun {}", parts_.plan.options.entrypoint),
                        .generation = membership::restart_count(round.seat.generation),
                        .phase = "running",
                        .world_size = round.seat.world_size.value(),
                        .taken_ns = 0,
                        .ranks = {}};
  if (limits_.is_off()) return;
  begin_.set_after(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(limits_.first_s() / 2)),
                   [this] { begin(); });
}

void HangWatch::worker_spawned(const membership::Round&, const WorkerOutcome& worker) {
  targets_.push_back({.rank = worker.rank.value(),
                      .local_rank = worker.local_rank.value(),
                      .pid = worker.pid,
                      .started = start_of(worker.pid)});
}

void HangWatch::worker_exited(const membership::Round&, const WorkerOutcome& worker) {
  for (RankTarget& target : targets_) {
    if (target.local_rank == worker.local_rank.value()) target.pid = 0;
  }
}

void HangWatch::stopping(const membership::Round&, StopReason, const std::string&) { stop(); }

void HangWatch::generation_ended(const GenerationOutcome&) { stop(); }

void HangWatch::stop() {
  gate_.turn_away();
  begin_.cancel();
  watcher_.reset();
  parts_.quiet.forget();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
  text_.clear();
}

void HangWatch::begin() {
  HangLimits limits = limits_;
  limits.is_alone = targets_.size() >= static_cast<std::size_t>(picture_.world_size);
  Result<Beside> watcher = start_hang_process(picture_, targets_, limits, parts_.quiet);
  if (!watcher)
    return parts_.print(fmt::format("ddprun: {}; hangs are not told\n", watcher.error().message()));
  watcher_.emplace(std::move(*watcher));
  descriptor_.assign(watcher_->release_said());
  read();
}

void HangWatch::read() {
  descriptor_.async_read_some(boost::asio::buffer(buffer_),
                              gate_.pass([this](boost::system::error_code error, std::size_t count) {
                                if (error) {
                                  parts_.quiet.forget();
                                  return parts_.print(
                                      "ddprun: the watch for hangs has ended by itself; hangs of these "
                                      "workers are not told any more\n");
                                }
                                text_.append(buffer_.data(), count);
                                std::size_t end = text_.find('\n');
                                for (; end != std::string::npos; end = text_.find('\n')) {
                                  const std::string line = text_.substr(0, end);
                                  text_.erase(0, end + 1);
                                  take(line);
                                }
                                if (watcher_) read();
                              }));
}

void HangWatch::take(std::string_view line) {
  const std::optional<News> news = parse_news(line);
  if (!news) return;
  if (const auto* const straggler = std::get_if<Straggler>(&*news)) return parts_.tell_straggler(*straggler);
  const Hang& hang = std::get<Hang>(*news);
  parts_.print(hang.page);
  parts_.tell_hang(hang);
  if (hang.ends) end_workers(hang);
}

void HangWatch::end_workers(const Hang& hang) {
  const std::string limit = format_duration(std::chrono::duration<double>(limits_.timeout_s));
  const auto is_guilty = [&](int rank) {
    return std::find(hang.guilty.begin(), hang.guilty.end(), rank) != hang.guilty.end();
  };
  // Who has ended cannot be killed: then those end who wait for it.
  const bool any_lives = std::any_of(targets_.begin(), targets_.end(), [&](const RankTarget& target) {
    return target.pid > 0 && is_guilty(target.rank);
  });
  const bool all = has_killed_ || !any_lives;
  has_killed_ = true;
  const auto is_ended = [&](const RankTarget& target) {
    return target.pid > 0 && (all || is_guilty(target.rank));
  };
  const auto count = std::count_if(targets_.begin(), targets_.end(), is_ended);
  const HangEnd end{.reason = fmt::format("no progress for {} ({}), so ddprun ended {}: {}", limit,
                                          limits_.timeout_name, count > 1 ? "them" : "it", hang.reason),
                    .is_of_those_ended = hang.have_ended};
  for (const RankTarget& target : targets_) {
    if (!is_ended(target)) continue;
    // Who is dying anyway, and is long about it, ends of what it is dying of.
    if (leaving(target.pid) != Leaving::kOver) parts_.note_end(target.rank, end, hang.page);
    ::kill(-target.pid, SIGKILL);  // its OS process group: it has a session of its own
  }
}

}  // namespace ddprun::launcher::why
