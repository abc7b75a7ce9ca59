#include "launcher/watch/screen.h"

#include "launcher/text/text.h"
#include "launcher/why/straggler.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace ddprun::launcher::watch {
namespace {

std::string shown(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

std::string cut(const std::string& line, std::size_t columns) {
  const std::string text = line.substr(0, line.find_last_not_of(' ') + 1);
  constexpr std::size_t kMark = 3;  // bytes of "…"
  if (columns == 0 || text.size() <= columns) return text + "\n";
  return shorten(text, columns > kMark ? columns - kMark : columns) + "\n";
}

std::string output_words(const RankSample& rank) {
  if (!rank.last_output_s) return {};
  return fmt::format("{} ago: {}", shown(*rank.last_output_s), rank.last_line);
}

std::string rank_line(const RankSample& rank, const RankNumbers& numbers) {
  const std::string count = numbers.collectives ? fmt::format("{}", *numbers.collectives) : "-";
  const std::string pace =
      numbers.collectives_per_s ? fmt::format("{:.1f}/s", *numbers.collectives_per_s) : "-";
  const std::string cpu = numbers.cpu_share ? fmt::format("{:.0f} %", *numbers.cpu_share * 100) : "-";
  const std::string late = numbers.collectives ? shown(numbers.late_s) : "-";
  return fmt::format("  {:<5} {:<9} {:<20} {:<11} {:<9} {:<8} {:<6} {:<9} {}", rank.rank,
                     rank.pid == 0 ? std::string("-") : fmt::format("{}", rank.pid), numbers.doing, count,
                     pace, late, cpu, rank.pid == 0 ? std::string("-") : format_bytes(rank.memory),
                     output_words(rank));
}

/// "rank 1 is the slowest: it comes 303 ms after the first"
std::string straggler_line(const JobSample& sample) {
  why::JobPicture picture;
  for (const RankSample& rank : sample.ranks) {
    why::RankFacts& facts = picture.ranks.emplace_back();
    facts.rank = rank.rank;
    facts.recorder = rank.recorder;
  }
  const why::Straggler slowest = why::find_straggler(picture);
  if (slowest.rank < 0) return {};
  return fmt::format(
      "  rank {} is the slowest: at collectives it comes {} after the first, {:.0f} % of the time",
      slowest.rank, shown(slowest.late_s), slowest.share * 100);
}

std::string more_line(std::size_t left_out) {
  return fmt::format("  … and {} more rank{}; `ddprun ps --watch | less` shows all", left_out,
                     left_out == 1 ? "" : "s");
}

/// How many lines of ranks each job may have on a screen of so many rows, on which the cursor needs one. Those that
/// have less than their share leave it to the others.
std::size_t most_ranks(const std::vector<WatchedJob>& jobs, std::size_t rows) {
  constexpr std::size_t kAround = 4;  // two of its head, the slowest, and how many more there are
  std::size_t left = rows > jobs.size() * kAround + 1 ? rows - jobs.size() * kAround - 1 : 0;
  std::size_t share = 0;
  for (;;) {
    const auto cut = static_cast<std::size_t>(std::count_if(
        jobs.begin(), jobs.end(), [&](const WatchedJob& job) { return job.now.ranks.size() > share; }));
    if (cut == 0 || cut > left) return share;
    left -= cut;
    ++share;
  }
}

}  // namespace

std::string render_screen(const std::vector<WatchedJob>& jobs, ScreenSize size) {
  const std::size_t columns = size.columns;
  const std::size_t most = size.rows == 0 ? std::string::npos : most_ranks(jobs, size.rows);
  std::string text;
  for (const WatchedJob& job : jobs) {
    const JobState& state = job.now.state;
    text += cut(fmt::format("job {} (pid {}): {}, {} of {} ranks here, {} of {} restarts, {}", state.tag,
                            state.launcher, state.phase, state.local_world_size, state.world_size,
                            state.restarts_used, state.max_restarts, printable(job.now.command)),
                columns);
    text += cut(fmt::format("  {:<5} {:<9} {:<20} {:<11} {:<9} {:<8} {:<6} {:<9} {}", "RANK", "PID", "STATE",
                            "COLLECTIVES", "PACE", "LATE", "CPU", "MEMORY", "LAST OUTPUT"),
                columns);
    const std::vector<RankNumbers> rows = numbers_of(job.now, job.before ? &*job.before : nullptr);
    const std::size_t shown_ranks = std::min(rows.size(), most);
    for (std::size_t i = 0; i < shown_ranks; ++i) text += cut(rank_line(job.now.ranks[i], rows[i]), columns);
    if (shown_ranks < rows.size()) text += cut(more_line(rows.size() - shown_ranks), columns);
    if (const std::string slowest = straggler_line(job.now); !slowest.empty()) text += cut(slowest, columns);
  }
  return text;
}

}  // namespace ddprun::launcher::watch
