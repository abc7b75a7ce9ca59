#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>

// Launcher and guard are killed at random moments; soon nothing of the job may be alive,
// whatever its workers did to stay.

using namespace ddprun::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

int repetitions(const char* variable, int by_default) {
  const char* text = std::getenv(variable);
  return text == nullptr ? by_default : std::atoi(text);
}

enum class Nesting { kOne, kTwo };

bool is_named(pid_t pid, const std::string& name) {
  return read_file("/proc/" + std::to_string(pid) + "/comm") == name + "\n";
}

/// With those deputies that have become the launcher's children.
std::vector<pid_t> guards_of(const Launched& launcher) {
  const std::string self = std::to_string(launcher.pid());
  std::istringstream children(read_file("/proc/" + self + "/task/" + self + "/children"));
  std::vector<pid_t> found;
  for (pid_t pid = 0; children >> pid;) {
    if (is_named(pid, "job-guard")) found.push_back(pid);
  }
  return found;
}

/// As soon as both have taken their name: workers may be faster.
std::vector<pid_t> both_guards_of(const Launched& launcher) {
  std::vector<pid_t> found;
  REQUIRE(eventually(seconds(10), [&] { return (found = guards_of(launcher)).size() == 2; }));
  return found;
}

/// A job of hostile workers that carries a token of its own in every command line and environment. Of two
/// nested launchers the outer has one worker, the inner launcher.
struct HostileJob {
  explicit HostileJob(std::string name, std::vector<std::string> end = {}, Nesting nesting = Nesting::kOne)
      : token("token-" + std::to_string(::getpid()) + "-" + std::move(name)) {
    options.environment["DDPRUN_TEST_TOKEN"] = token;
    std::vector<std::string> arguments{
        "--nproc-per-node", "2",           "--shutdown-timeout",      "1",  "--log-dir",
        "/dev/null",        "--no-python", program("hostile_worker"), token};
    arguments.insert(arguments.end(), end.begin(), end.end());
    std::vector<std::string> command = ddprun_command(arguments);
    if (nesting == Nesting::kTwo) {
      command.insert(command.begin(), {"--log-dir", "/dev/null", "--no-python"});
      command = ddprun_command(command);
    }
    job.emplace(command, options);
  }

  [[nodiscard]] bool is_gone() const { return processes_with(token).empty(); }

  [[nodiscard]] std::string survivors() const {
    std::string text;
    for (const pid_t pid : processes_with(token)) {
      text += std::to_string(pid) + ": " + read_file("/proc/" + std::to_string(pid) + "/stat");
    }
    return text;
  }

  [[nodiscard]] std::vector<pid_t> named(const std::string& name) const {
    std::vector<pid_t> found;
    for (const pid_t pid : processes_with(token)) {
      if (is_named(pid, name)) found.push_back(pid);
    }
    return found;
  }
  [[nodiscard]] std::vector<pid_t> guards() const { return guards_of(*job); }
  /// The outer one first.
  [[nodiscard]] std::vector<pid_t> launchers() const {
    std::vector<pid_t> found = named("ddprun");
    std::partition(found.begin(), found.end(), [&](pid_t pid) { return pid == job->pid(); });
    return found;
  }

  std::string token;
  LaunchOptions options;
  std::optional<Launched> job;
};

}  // namespace

namespace {

/// Every third launcher is killed somewhere in its first milliseconds, every third when the workers are
/// entrenched, and every third a moment after one of its guards.
void kill_launcher(HostileJob& hostile, int round, std::mt19937& random) {
  if (round % 3 != 0) {
    hostile.job->read_line();
    hostile.job->read_line();
  } else {
    ::usleep(std::uniform_int_distribution<useconds_t>(0, 20000)(random));
  }
  if (round % 3 == 2) {
    const std::vector<pid_t> guards = both_guards_of(*hostile.job);
    ::kill(guards[static_cast<std::size_t>(round / 3 % 2)], SIGKILL);
    ::usleep(std::uniform_int_distribution<useconds_t>(0, 2000)(random));
  }
  hostile.job->signal(SIGKILL);
}

}  // namespace

TEST_CASE("nothing survives a launcher that is killed at any moment", "[repeat]") {
  std::mt19937 random(std::random_device{}());
  const int jobs_at_a_time = repetitions("DDPRUN_JOBS_AT_A_TIME", 1);
  const seconds limit(repetitions("DDPRUN_KILL_SECONDS", 2));
  const int rounds = repetitions("DDPRUN_KILLS", 30);
  for (int round = 0; round < rounds;) {
    std::vector<std::unique_ptr<HostileJob>> jobs;
    for (int i = 0; i < jobs_at_a_time && round < rounds; ++i, ++round) {
      jobs.push_back(std::make_unique<HostileJob>("kill-" + std::to_string(round)));
      if (round % 3 == 0) kill_launcher(*jobs.back(), round, random);
    }
    const int first = round - static_cast<int>(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const int number = first + static_cast<int>(i);
      if (number % 3 != 0) kill_launcher(*jobs[i], number, random);
      REQUIRE(jobs[i]->job->wait() == 128 + SIGKILL);
    }
    const std::string all = "token-" + std::to_string(::getpid()) + "-kill-";
    const bool gone = eventually(limit, [&] { return processes_with(all).empty(); });
    std::string survivors;
    for (const auto& job : jobs) survivors += job->survivors();
    INFO("rounds " << first << " to " << round - 1 << ", after " << limit.count() << " s:\n" << survivors);
    REQUIRE(gone);
    if (jobs_at_a_time > 1 && first % 1000 < jobs_at_a_time)
      std::fprintf(stderr, "%d of %d kills, none survived\n", round, rounds);
  }
}

TEST_CASE("the kernel ends the workers' families when launcher and guards are killed at one blow") {
  const std::string token = "token-" + std::to_string(::getpid()) + "-blow";
  LaunchOptions options;
  options.environment["DDPRUN_TEST_TOKEN"] = token;
  Launched job(ddprun_command({"--nproc-per-node", "2", "--log-dir", "/dev/null", "--no-python", "/bin/sh",
                               "-c", "sleep 1000 & (sleep 1000; true) & echo up; wait"}),
               options);
  job.read_line();
  job.read_line();
  std::vector<pid_t> all = both_guards_of(job);
  all.push_back(job.pid());
  for (const pid_t pid : all) ::kill(pid, SIGKILL);
  CHECK(job.wait() == 128 + SIGKILL);
  CHECK(eventually(seconds(10), [&] { return processes_with(token).empty(); }));
}

TEST_CASE("nothing survives when the outer of two nested launchers is killed, or the inner") {
  for (const bool kill_outer : {true, false}) {
    HostileJob nested("nested-" + std::to_string(kill_outer), {}, Nesting::kTwo);
    nested.job->read_line();
    nested.job->read_line();
    const std::vector<pid_t> launchers = nested.launchers();
    REQUIRE(launchers.size() == 2);
    ::kill(launchers[kill_outer ? 0 : 1], SIGKILL);
    CHECK(nested.job->wait() == 128 + SIGKILL);
    const bool gone = eventually(seconds(10), [&] { return nested.is_gone(); });
    INFO("outer " << kill_outer << ", after ten seconds:\n" << nested.survivors());
    CHECK(gone);
  }
}

TEST_CASE("nothing survives a worker's failure, however entrenched its family") {
  HostileJob hostile("failure", {"exit", "3"});
  CHECK(hostile.job->wait() == 3);
  CHECK(hostile.is_gone());
}

TEST_CASE("nothing survives a launcher that is told to stop") {
  HostileJob hostile("term");
  hostile.job->read_line();
  hostile.job->read_line();
  hostile.job->signal(SIGTERM);
  CHECK(hostile.job->wait() == 128 + SIGTERM);
  CHECK(hostile.is_gone());
}

TEST_CASE("a guard that is killed is replaced, and the job does not notice") {
  HostileJob hostile("guard");
  hostile.job->read_line();
  hostile.job->read_line();
  for (int i = 0; i < 5; ++i) {
    const std::vector<pid_t> before = both_guards_of(*hostile.job);
    ::kill(before.front(), SIGKILL);
    CHECK(eventually(seconds(5), [&] {
      const std::vector<pid_t> now = hostile.guards();
      return now.size() == 2 && now != before;
    }));
  }
  hostile.job->signal(SIGTERM);
  CHECK(hostile.job->wait() == 128 + SIGTERM);
  CHECK(hostile.is_gone());
}
