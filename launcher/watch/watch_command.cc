#include "launcher/watch/watch_command.h"

#include "launcher/output/pty.h"
#include "launcher/report/running_jobs.h"
#include "launcher/watch/sampler.h"
#include "launcher/watch/screen.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"

#include <time.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::watch {
namespace {

struct Watched {
  JobSampler sampler;
  std::optional<JobSample> last;
};

/// The page's lines have to be on the screen before the cursor goes home, and what was below them goes.
std::string in_place(const std::string& page) {
  std::string text = "\033[H";
  for (const char c : page) text += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
  return text + "\033[J";
}

ScreenSize size_of(int fd) { return {.columns = terminal_columns(fd), .rows = terminal_rows(fd)}; }

std::vector<WatchedJob> sample_all(std::map<pid_t, Watched>& jobs) {
  std::vector<WatchedJob> pages;
  for (auto job = jobs.begin(); job != jobs.end();) {
    std::optional<JobSample> now = job->second.sampler.sample();
    if (!now) {
      job = jobs.erase(job);
      continue;
    }
    pages.push_back({.now = *now, .before = std::exchange(job->second.last, now)});
    ++job;
  }
  return pages;
}

}  // namespace

int watch_jobs() {
  // All processes are looked through for new jobs less often than known jobs are read.
  constexpr int kScans = 5;
  constexpr timespec kPeriod{2, 0};
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  std::map<pid_t, Watched> jobs;
  for (int round = 0;; ++round) {
    if (jobs.empty() || round % kScans == 0) {
      for (const JobFacts& job : find_jobs(read_own_processes()))
        jobs.try_emplace(job.launcher, Watched{JobSampler(job.launcher, job.command_line), std::nullopt});
    }
    const std::vector<WatchedJob> pages = sample_all(jobs);
    if (pages.empty()) {
      const std::string end = "no job of yours runs on this host\n";
      return print_all(STDOUT_FILENO, end) ? exit_code::kOk : exit_code::kOs;
    }
    const std::string page = render_screen(pages, is_terminal ? size_of(STDOUT_FILENO) : ScreenSize{});
    const std::string text = !is_terminal ? page + "\n" : (round == 0 ? "\033[2J" : "") + in_place(page);
    if (!print_all(STDOUT_FILENO, text)) return exit_code::kOs;
    ::nanosleep(&kPeriod, nullptr);
  }
}

}  // namespace ddprun::launcher::watch
