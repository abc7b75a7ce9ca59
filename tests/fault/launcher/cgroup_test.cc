#include "tests/support/catch.h"
#include "tests/support/launched.h"
#include "tests/support/skip.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

// Where a control group was delegated to the launcher, even a process that sheds every other mark is found.

using namespace ddprun::testing;

namespace {

/// A version 2 control group, marked as delegated; needs root and that hierarchy.
struct DelegatedGroup {
  std::string path;
  bool is_there = false;

  DelegatedGroup() {
    for (const char* mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
      if (::access((std::string(mount) + "/cgroup.procs").c_str(), W_OK) != 0) continue;
      path = std::string(mount) + "/ddprun-test-" + std::to_string(::getpid());
      is_there = ::mkdir(path.c_str(), 0755) == 0 &&
                 ::setxattr(path.c_str(), "user.delegate", "1", 1, 0) == 0 &&
                 ::access((path + "/cgroup.kill").c_str(), W_OK) == 0;
      if (is_there) return;
      ::rmdir(path.c_str());
    }
  }
  ~DelegatedGroup() {
    if (is_there) ::rmdir(path.c_str());
  }
  [[nodiscard]] bool is_empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_directory()) return false;
    }
    return read_file(path + "/cgroup.procs").empty();
  }
};

/// ddprun started inside the group.
std::vector<std::string> inside(const DelegatedGroup& group, std::vector<std::string> arguments) {
  std::vector<std::string> command{"/bin/sh", "-c",
                                   "echo $$ > " + group.path + "/cgroup.procs && exec \"$@\"", "sh"};
  for (std::string& word : ddprun_command(std::move(arguments))) command.push_back(std::move(word));
  return command;
}

// Sheds its environment, its session and its parent.
const std::string kEscape = "setsid setsid env -i /bin/sh -c 'echo gone >&2; exec sleep 1000' ";

}  // namespace

TEST_CASE("a launcher that is killed takes with it even what shed environment, session and parent") {
  const DelegatedGroup group;
  if (!group.is_there) return skipped("needs root and a version 2 cgroup hierarchy with cgroup.kill");
  const std::string token = "token-" + std::to_string(::getpid()) + "-cgroup";
  Launched job(inside(group, {"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c",
                              "(" + kEscape + token + " &); exec sleep 1000", token}));
  job.wait_for_err("gone\ngone\n");
  CHECK_FALSE(group.is_empty());
  job.signal(SIGKILL);
  CHECK(job.wait() == 128 + SIGKILL);
  CHECK(eventually(std::chrono::seconds(10), [&] { return processes_with(token).empty(); }));
  CHECK(eventually(std::chrono::seconds(10), [&] { return group.is_empty(); }));
}

TEST_CASE("a job in a delegated group runs, fails and reports as any other, and leaves no group behind") {
  const DelegatedGroup group;
  if (!group.is_there) return skipped("needs root and a version 2 cgroup hierarchy with cgroup.kill");
  Launched good(inside(group, {"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c", "echo hello"}));
  CHECK(good.wait() == 0);
  CHECK(good.out() == "hello\nhello\n");
  CHECK(group.is_empty());
  Launched bad(inside(group, {"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c",
                              "[ $RANK = 1 ] && exit 7; sleep 100"}));
  CHECK(bad.wait() == 7);
  CHECK(eventually(std::chrono::seconds(10), [&] { return group.is_empty(); }));
}
