#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>

// Launcher and guard are killed at random moments; two seconds later nothing of the job may be alive,
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

pid_t parent_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos ? 0 : std::atoi(stat.c_str() + close + 4);  // ") S 4711 …"
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
      if (read_file("/proc/" + std::to_string(pid) + "/comm") == name + "\n") found.push_back(pid);
    }
    return found;
  }
  /// With those deputies that have become the launcher's children.
  [[nodiscard]] std::vector<pid_t> guards() const {
    std::vector<pid_t> found = named("job-guard");
    std::erase_if(found, [&](pid_t pid) { return parent_of(pid) != job->pid(); });
    return found;
  }
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

TEST_CASE("nothing survives a launcher that is killed at any moment", "[repeat]") {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < repetitions("DDPRUN_KILLS", 30); ++round) {
    HostileJob hostile("kill-" + std::to_string(round));
    // Every third kill comes somewhere in the first milliseconds, every third when the workers are
    // entrenched, and every third hits a guard a moment before.
    if (round % 3 != 0) {
      hostile.job->read_line();
      hostile.job->read_line();
    } else {
      ::usleep(std::uniform_int_distribution<useconds_t>(0, 20000)(random));
    }
    if (round % 3 == 2) {
      const std::vector<pid_t> guards = hostile.guards();
      REQUIRE(guards.size() == 2);
      ::kill(guards[static_cast<std::size_t>(round % 2)], SIGKILL);
      ::usleep(std::uniform_int_distribution<useconds_t>(0, 2000)(random));
    }
    hostile.job->signal(SIGKILL);
    INFO("round " << round << ", survivors:\n" << hostile.survivors());
    REQUIRE(hostile.job->wait() == 128 + SIGKILL);
    const bool gone = eventually(seconds(2), [&] { return hostile.is_gone(); });
    INFO("after two seconds:\n" << hostile.survivors());
    REQUIRE(gone);
  }
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
    const bool gone = eventually(seconds(2), [&] { return nested.is_gone(); });
    INFO("outer " << kill_outer << ", after two seconds:\n" << nested.survivors());
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
    const std::vector<pid_t> before = hostile.guards();
    REQUIRE(before.size() == 2);
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
