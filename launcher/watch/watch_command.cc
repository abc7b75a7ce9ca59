#include "launcher/watch/watch_command.h"

#include "launcher/output/pty.h"
#include "launcher/report/running_jobs.h"
#include "launcher/watch/other_ranks.h"
#include "launcher/watch/sampler.h"
#include "launcher/watch/screen.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"

#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::launcher::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Of the two seconds from one page to the next; a node that is well answers in a few milliseconds.
constexpr milliseconds kPatience{1500};

struct Watched {
  JobSampler sampler;
  std::optional<JobSample> last{};
  std::optional<why::Question> question{};
  OtherRanks others{};
};

/// The page's lines have to be on the screen before the cursor goes home, and what was below them goes.
std::string in_place(const std::string& page) {
  std::string text = "\033[H";
  for (const char c : page) text += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
  return text + "\033[J";
}

ScreenSize size_of(int fd) { return {.columns = terminal_columns(fd), .rows = terminal_rows(fd)}; }

/// Asks the other nodes, if there are any.
void ask_others(const JobSample& now, pid_t launcher, Watched& job) {
  const bool is_in_container = now.state.launcher != launcher;
  if (now.state.world_size > now.state.local_world_size && !is_in_container)
    job.question.emplace(launcher, LookKind::kNumbers);
}

void hear_others(WatchedJob& page, pid_t launcher, Watched& job, steady_clock::time_point until) {
  const PublishedJob& state = page.now.state;
  if (!job.question) {
    if (state.world_size > state.local_world_size) page.unseen.emplace_back(why::kLauncherInContainer);
    return;
  }
  job.others.take(job.question->answer(until), launcher, steady_clock::now(), kPatience);
  job.question.reset();
  page.others = job.others.samples();
  page.unseen = job.others.unseen();
}

std::vector<WatchedJob> sample_all(std::map<pid_t, Watched>& jobs) {
  std::vector<WatchedJob> pages;
  for (auto job = jobs.begin(); job != jobs.end();) {
    std::optional<JobSample> now = job->second.sampler.sample();
    if (!now) {
      job = jobs.erase(job);
      continue;
    }
    const bool has_others = now->state.world_size > now->state.local_world_size;
    if (has_others && !has_seat(now->state)) now->ranks.clear();
    ask_others(*now, job->first, job->second);
    pages.push_back({.now = *now, .before = std::exchange(job->second.last, now)});
    ++job;
  }
  const auto until = steady_clock::now() + kPatience;
  auto page = pages.begin();
  for (auto& [launcher, job] : jobs) hear_others(*page++, launcher, job, until);
  return pages;
}

}  // namespace

int watch_jobs() {
  // All processes are looked through for new jobs less often than known jobs are read.
  constexpr int kScans = 5;
  constexpr milliseconds kPeriod{2000};
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  std::map<pid_t, Watched> jobs;
  for (int round = 0;; ++round) {
    const auto next = steady_clock::now() + kPeriod;
    if (jobs.empty() || round % kScans == 0) {
      for (const JobFacts& job : find_jobs(read_own_processes()))
        jobs.try_emplace(job.launcher, Watched{JobSampler(job.launcher, job.command_line)});
    }
    const std::vector<WatchedJob> pages = sample_all(jobs);
    if (pages.empty()) {
      const std::string end = "no job of yours runs on this host\n";
      return print_all(STDOUT_FILENO, end) ? exit_code::kOk : exit_code::kOs;
    }
    const std::string page = render_screen(pages, is_terminal ? size_of(STDOUT_FILENO) : ScreenSize{});
    const std::string text = !is_terminal ? page + "\n" : (round == 0 ? "\033[2J" : "") + in_place(page);
    if (!print_all(STDOUT_FILENO, text)) return exit_code::kOs;
    std::this_thread::sleep_until(next);
  }
}

}  // namespace ddprun::launcher::watch
