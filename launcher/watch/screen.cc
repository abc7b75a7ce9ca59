#include "launcher/watch/screen.h"

#include "launcher/text/text.h"
#include "launcher/why/verdict/straggler.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

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

/// A rank of any node.
struct Row {
  const RankSample* rank;
  RankNumbers numbers;
  const std::string* host;
  bool is_alone;  ///< on its node: nobody is there to be late behind
};

std::vector<Row> rows_of(const WatchedJob& job) {
  std::vector<Row> rows;
  std::set<int> known;
  const auto add = [&](const JobSample& now, const std::optional<JobSample>& before) {
    std::vector<RankNumbers> numbers = numbers_of(now, before ? &*before : nullptr);
    for (std::size_t i = 0; i < now.ranks.size(); ++i) {
      const bool is_of_the_job = now.ranks[i].rank >= 0 && now.ranks[i].rank < job.now.state.world_size;
      if (&now != &job.now && !is_of_the_job) continue;
      if (known.insert(now.ranks[i].rank).second)
        rows.push_back({.rank = &now.ranks[i],
                        .numbers = std::move(numbers[i]),
                        .host = &now.host,
                        .is_alone = now.ranks.size() == 1});
    }
  };
  add(job.now, job.before);
  for (const NodeSamples& other : job.others) add(other.now, other.before);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.rank->rank < b.rank->rank; });
  return rows;
}

/// Of the column HOST, with its blank; 0: all ranks are on this host's node.
std::size_t host_columns(const WatchedJob& job, const std::vector<Row>& rows) {
  constexpr std::size_t kLeast = 10, kMost = 24;
  if (job.now.state.world_size <= job.now.state.local_world_size) return 0;
  std::size_t longest = kLeast;
  for (const Row& row : rows) longest = std::max(longest, row.host->size() + 1);
  return std::min(longest, kMost);
}

std::string host_cell(const std::string& host, std::size_t columns) {
  constexpr std::size_t kMark = 3;  // bytes of "…"
  if (columns == 0) return {};
  if (host.size() < columns) return fmt::format("{:<{}}", host, columns);
  return shorten(host, columns - 1 - kMark) + " ";
}

/// The columns whose width depends on the job; 0: it has none of them.
struct Columns {
  std::size_t host = 0;
  std::size_t step = 0;
  std::size_t gpu = 0;
};

Columns columns_of(const WatchedJob& job, const std::vector<Row>& rows) {
  constexpr std::size_t kStep = 16, kGpu = 17;
  const auto any = [&](auto is_it) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return is_it(*row.rank); });
  };
  return {.host = host_columns(job, rows),
          .step = any([](const RankSample& rank) { return rank.progress.step >= 0; }) ? kStep : 0,
          .gpu = any([](const RankSample& rank) { return rank.gpu.has_value(); }) ? kGpu : 0};
}

std::string state_cell(const std::string& doing) {
  constexpr std::size_t kState = 20;
  return fmt::format("{:<{}}", doing.size() <= kState ? doing : shorten(doing, kState - 1), kState);
}

/// "1294 (8.3/s)"
std::string step_cell(const Row& row, std::size_t columns) {
  if (columns == 0) return {};
  const std::int64_t step = row.rank->progress.step;
  const std::string pace =
      row.numbers.steps_per_s ? fmt::format(" ({:.1f}/s)", *row.numbers.steps_per_s) : std::string();
  return fmt::format("{:<{}}", step < 0 ? std::string("-") : fmt::format("{}{}", step, pace), columns);
}

/// "97 % 61.2 GiB"
std::string gpu_cell(const RankSample& rank, std::size_t columns) {
  if (columns == 0) return {};
  if (!rank.gpu) return fmt::format("{:<{}}", "-", columns);
  const std::string share =
      rank.gpu->utilization ? fmt::format("{:.0f} %", *rank.gpu->utilization * 100) : "-";
  return fmt::format("{:<{}}", fmt::format("{} {}", share, format_bytes(rank.gpu->memory)), columns);
}

std::string rank_line(const Row& row, Columns columns) {
  const RankSample& rank = *row.rank;
  const RankNumbers& numbers = row.numbers;
  const std::string count = numbers.collectives ? fmt::format("{}", *numbers.collectives) : "-";
  const std::string pace =
      numbers.collectives_per_s ? fmt::format("{:.1f}/s", *numbers.collectives_per_s) : "-";
  const std::string cpu = numbers.cpu_share ? fmt::format("{:.0f} %", *numbers.cpu_share * 100) : "-";
  const std::string late = numbers.collectives && !row.is_alone ? shown(numbers.late_s) : "-";
  return fmt::format("  {:<5} {}{:<9} {} {}{:<11} {:<9} {:<8} {:<6} {:<9} {}{}", rank.rank,
                     host_cell(*row.host, columns.host),
                     rank.pid == 0 ? std::string("-") : fmt::format("{}", rank.pid),
                     state_cell(numbers.doing), step_cell(row, columns.step), count, pace, late, cpu,
                     rank.pid == 0 ? std::string("-") : format_bytes(rank.memory),
                     gpu_cell(rank, columns.gpu), output_words(rank));
}

Straggler straggler_of(const JobSample& sample) {
  why::JobPicture picture;
  for (const RankSample& rank : sample.ranks) {
    why::RankFacts& facts = picture.ranks.emplace_back();
    facts.rank = rank.rank;
    facts.recorder = rank.recorder;
  }
  return why::find_straggler(picture);
}

/// "rank 1 is the slowest: it comes 303 ms after the first"
std::string straggler_line(const WatchedJob& job) {
  Straggler slowest = straggler_of(job.now);
  std::string host = job.now.host;
  for (const NodeSamples& other : job.others) {
    const Straggler there = straggler_of(other.now);
    if (there.rank < 0 || (slowest.rank >= 0 && there.late_s <= slowest.late_s)) continue;
    slowest = there;
    host = other.now.host;
  }
  if (slowest.rank < 0) return {};
  return fmt::format(
      "  rank {} is the slowest{}: at collectives it comes {} after the first, {:.0f} % of the time",
      slowest.rank, job.others.empty() ? std::string() : " of those on " + host, shown(slowest.late_s),
      slowest.share * 100);
}

std::string more_line(std::size_t left_out) {
  return fmt::format("  … and {} more rank{}; `ddprun ps --watch | less` shows all", left_out,
                     left_out == 1 ? "" : "s");
}

constexpr std::size_t kMostSentences = 4;  // on a screen

std::string unseen_lines(const std::vector<std::string>& unseen, ScreenSize size) {
  std::string text;
  const std::size_t most = size.rows == 0 ? unseen.size() : std::min(unseen.size(), kMostSentences);
  for (std::size_t i = 0; i < most; ++i) text += cut("  " + unseen[i], size.columns);
  if (most < unseen.size())
    text += cut(fmt::format("  … and of {} more nodes", unseen.size() - most), size.columns);
  return text;
}

std::size_t ranks_of(const WatchedJob& job) {
  std::size_t count = job.now.ranks.size();
  for (const NodeSamples& other : job.others) count += other.now.ranks.size();
  return count;
}

/// How many lines of ranks each job may have on a screen of so many rows, on which the cursor needs one. Those that
/// have less than their share leave it to the others.
std::size_t most_ranks(const std::vector<WatchedJob>& jobs, std::size_t rows) {
  constexpr std::size_t kAround = 4;  // two of its head, the slowest, and how many more there are
  std::size_t taken = jobs.size() * kAround + 1;
  for (const WatchedJob& job : jobs) taken += std::min(job.unseen.size(), kMostSentences + 1);
  std::size_t left = rows > taken ? rows - taken : 0;
  std::size_t share = 0;
  for (;;) {
    const auto cut = static_cast<std::size_t>(std::count_if(
        jobs.begin(), jobs.end(), [&](const WatchedJob& job) { return ranks_of(job) > share; }));
    if (cut == 0 || cut > left) return share;
    left -= cut;
    ++share;
  }
}

std::string ranks_in_words(const PublishedJob& state) {
  if (state.world_size > 0)
    return fmt::format("{} of {} ranks here", state.local_world_size, state.world_size);
  return state.awaits.empty() ? "no ranks yet" : printable(state.awaits);
}

}  // namespace

std::string render_screen(const std::vector<WatchedJob>& jobs, ScreenSize size) {
  const std::size_t columns = size.columns;
  const std::size_t most = size.rows == 0 ? std::string::npos : most_ranks(jobs, size.rows);
  std::string text;
  for (const WatchedJob& job : jobs) {
    const PublishedJob& state = job.now.state;
    text += cut(fmt::format("job {} (pid {}): {}, {}, {} of {} restarts, {}", state.tag, state.launcher,
                            state.phase, ranks_in_words(state), state.restarts_used, state.max_restarts,
                            printable(job.now.command)),
                columns);
    if (state.world_size == 0) {  // before the first round
      text += unseen_lines(job.unseen, size);
      continue;
    }
    const std::vector<Row> rows = rows_of(job);
    const Columns wide = columns_of(job, rows);
    text += cut(
        fmt::format("  {:<5} {}{:<9} {:<20} {}{:<11} {:<9} {:<8} {:<6} {:<9} {}{}", "RANK",
                    host_cell("HOST", wide.host), "PID", "STATE",
                    wide.step == 0 ? std::string() : fmt::format("{:<{}}", "STEP", wide.step), "COLLECTIVES",
                    "PACE", "LATE", "CPU", "MEMORY",
                    wide.gpu == 0 ? std::string() : fmt::format("{:<{}}", "GPU", wide.gpu), "LAST OUTPUT"),
        columns);
    const std::size_t shown_ranks = std::min(rows.size(), most);
    for (std::size_t i = 0; i < shown_ranks; ++i) text += cut(rank_line(rows[i], wide), columns);
    if (shown_ranks < rows.size()) text += cut(more_line(rows.size() - shown_ranks), columns);
    if (const std::string slowest = straggler_line(job); !slowest.empty()) text += cut(slowest, columns);
    text += unseen_lines(job.unseen, size);
  }
  return text;
}

}  // namespace ddprun::launcher::watch
