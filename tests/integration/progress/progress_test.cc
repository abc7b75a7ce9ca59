#include "worker/runtime/comm/backend/progress.h"

#include "launcher/why/look/progress_look.h"
#include "launcher/why/look/rank_record.h"
#include "rendezvous/base/progress_page.h"
#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"
#include <ddprun/progress.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using launcher::why::Collective;
using launcher::why::Membership;
using launcher::why::ProgressLook;
using launcher::why::RankProgress;
using launcher::why::Recorder;
using runtime::Progress;

constexpr std::int16_t kFloat = 6;

ProgressLook look_at_this_process() {
  Progress::instance();
  auto look = ProgressLook::find(::getpid());
  REQUIRE(look);
  return std::move(*look);
}

/// To be written as by another thread.
ProgressPage& page_of_this_process() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry, error).string();
    if (target != std::string("/memfd:") + ProgressPage::kName + " (deleted)") continue;
    const UniqueFd file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    void* const mapped =
        ::mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(mapped != MAP_FAILED);
    return *static_cast<ProgressPage*>(mapped);
  }
  throw std::runtime_error("this process has no page");
}

TEST_CASE("a step counts when the next one begins") {
  const ProgressLook look = look_at_this_process();
  REQUIRE(look.progress().step == -1);  // the first case: none has noted a step
  Progress::instance().count_step();
  CHECK(look.progress().step == 0);
  Progress::instance().count_step();
  CHECK(look.progress().step == 1);
}

TEST_CASE("what a rank tells of itself is read from outside") {
  const ProgressLook look = look_at_this_process();
  note_phase("evaluates");
  note_step(1200);
  const RankProgress first = look.progress();
  CHECK(first.step == 1200);
  CHECK(first.phase == "evaluates");
  note_progress();
  CHECK(look.progress().beats == first.beats + 1);
  note_phase({});
  CHECK(look.progress().phase.empty());
  note_phase(std::string(100, 'x'));
  CHECK(look.progress().phase == std::string(31, 'x'));
}

TEST_CASE("who has noted a step counts none") {
  const ProgressLook look = look_at_this_process();
  note_step(7);
  Progress::instance().count_step();
  CHECK(look.progress().step == 7);
}

TEST_CASE("a collective is pending from its beginning to its end") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  const std::uint16_t group = progress.add_group("pairs");
  const std::uint64_t id = progress.enter(
      {.operation = "all_reduce", .sequence = 12, .elements = 1000, .dtype = kFloat, .group = group});
  Recorder recorder = look.recorder(4);
  REQUIRE(!recorder.entries.empty());
  Collective entry = recorder.entries.back();
  CHECK(entry.group == "pairs");
  CHECK(entry.sequence == 12);
  CHECK(entry.operation == "all_reduce");
  CHECK(entry.sizes == std::vector<std::int64_t>{1000});
  CHECK(entry.types == std::vector<int>{kFloat});
  CHECK_FALSE(entry.is_peer);
  CHECK_FALSE(entry.is_over);
  CHECK(entry.created_ns > std::int64_t{1'700'000'000} * 1'000'000'000);
  progress.leave(id);
  CHECK(look.recorder(4).entries.back().is_over);
}

TEST_CASE("a rank tells the groups that it is in, used or not, until they are gone") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  REQUIRE(look.recorder(1).next < ProgressPage::kLines);  // of more than there is room for less is told
  const std::uint16_t used = progress.add_group("used"), unused = progress.add_group("unused");
  progress.leave(progress.enter({.operation = "barrier", .sequence = 4, .group = used}));
  const auto newest_in = [&](const std::string& name) {
    for (const Membership& group : look.memberships()) {
      if (group.group == name) return group.newest.at("shm");
    }
    return std::int64_t{-1};
  };
  CHECK(newest_in("used") == 4);
  CHECK(newest_in("unused") == 0);
  progress.remove_group(unused);
  CHECK(newest_in("unused") == -1);
  // When its lines are another's, a group that was used cannot be told from one that was not.
  const std::uint16_t other = progress.add_group("other");
  for (std::size_t i = 0; i < ProgressPage::kLines; ++i)
    progress.leave(progress.enter({.operation = "barrier", .sequence = 1, .group = other}));
  CHECK(newest_in("used") == -1);
  CHECK(newest_in("other") == 1);
  progress.remove_group(used);
  progress.remove_group(other);
}

TEST_CASE("a message names its peer, and one from anybody none") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  progress.leave(progress.enter({.operation = "recv", .peer = 3}));
  CHECK(look.recorder(1).entries.back().is_peer);
  CHECK(look.recorder(1).entries.back().peer == 3);
  progress.leave(progress.enter({.operation = "recv", .peer = ProgressPage::kAnyPeer}));
  CHECK(look.recorder(1).entries.back().is_peer);
  CHECK(look.recorder(1).entries.back().peer == -1);
}

TEST_CASE("the newest collectives are kept, and all are counted") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  const std::uint64_t before = look.recorder(1).next;
  std::uint64_t first = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t id = progress.enter({.operation = "barrier", .sequence = i});
    if (i == 0) first = id;
    if (i > 0) progress.leave(id);
  }
  progress.leave(first);  // whose line is another's by now
  const Recorder recorder = look.recorder(1000);
  CHECK(recorder.next == before + 200);
  REQUIRE(recorder.entries.size() == ProgressPage::kLines);
  CHECK(recorder.entries.back().sequence == 199);
  CHECK(look.recorder(3).entries.front().sequence == 197);
}

TEST_CASE("of more groups at a time than there is room for nothing is told, and of those that are gone") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  std::vector<std::uint16_t> groups;
  for (int i = 0; i < 40; ++i) groups.push_back(progress.add_group("group " + std::to_string(i)));
  CHECK(groups.back() == Progress::kNoGroup);
  CHECK(progress.enter({.operation = "barrier", .group = groups.back()}) == 0);
  progress.leave(0);
  const std::uint16_t first = groups.front();
  for (int i = 1; i <= 3; ++i)
    progress.leave(progress.enter({.operation = "barrier", .sequence = i, .group = first}));
  progress.remove_group(first);
  CHECK(progress.add_group("another") == first);
  progress.leave(progress.enter({.operation = "barrier", .sequence = 1, .group = first}));
  int seen = 0;
  for (const Collective& entry : look.recorder(64).entries) {
    if (entry.group != "another") continue;
    ++seen;
    CHECK(entry.sequence == 1);
  }
  CHECK(seen == 1);
  progress.remove_group(first);
  for (const std::uint16_t group : groups) progress.remove_group(group);
}

TEST_CASE("no line is read while it is written") {
  const ProgressLook look = look_at_this_process();
  std::atomic<bool> is_over = false;
  std::vector<std::thread> writers;
  for (const int writer : {1, 2}) {
    writers.emplace_back([writer, &is_over] {
      for (std::int64_t n = 1; !is_over; ++n) {
        const std::int64_t sequence = n * 2 + writer;
        Progress::instance().leave(
            Progress::instance().enter({.operation = writer == 1 ? "all_gather" : "broadcast",
                                        .sequence = sequence,
                                        .elements = sequence}));
      }
    });
  }
  int seen = 0;
  while (seen < 20'000) {
    for (const Collective& entry : look.recorder(64).entries) {
      if (entry.operation != "all_gather" && entry.operation != "broadcast") continue;
      ++seen;
      if (entry.sizes != std::vector{entry.sequence}) {
        CHECK(entry.sizes == std::vector{entry.sequence});
        seen = 20'000;
      }
    }
  }
  is_over = true;
  for (std::thread& writer : writers) writer.join();
}

TEST_CASE("a line that another thread is writing, or has passed with a later collective, is left to it") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  ProgressPage& page = page_of_this_process();
  const std::uint16_t group = progress.add_group("two threads");
  const auto enter = [&](std::int64_t sequence) {
    return progress.enter({.operation = "barrier", .sequence = sequence, .group = group});
  };
  const std::uint64_t slow = page.begun + 1;  // of a thread that stands still while it writes
  page.begun = slow;
  page.lines[slow % ProgressPage::kLines].id = CollectiveLine::kBeingWritten;
  for (std::int64_t sequence = 1; sequence <= 100; ++sequence) progress.leave(enter(sequence));
  CHECK(page.lines[slow % ProgressPage::kLines].id == CollectiveLine::kBeingWritten);
  const std::vector<Collective> entries = look.recorder(ProgressPage::kLines).entries;
  REQUIRE(entries.size() == ProgressPage::kLines - 1);  // all but the slow one
  CHECK(entries.front().sequence == 100 - 62);
  CHECK(entries.back().sequence == 100);
  page.lines[slow % ProgressPage::kLines].id = slow;

  page.begun -= 2;  // who drew these two numbers finds later collectives in their lines
  CHECK(enter(101) == slow + 102);
  progress.remove_group(group);
}

TEST_CASE("the end of a collective is not that of a later one in its line") {
  const ProgressLook look = look_at_this_process();
  Progress& progress = Progress::instance();
  const std::uint16_t group = progress.add_group("ends");
  std::vector<std::uint64_t> ids;
  for (std::int64_t sequence = 1; sequence <= 65; ++sequence)
    ids.push_back(progress.enter({.operation = "barrier", .sequence = sequence, .group = group}));
  progress.leave(ids.front());
  CHECK(!look.recorder(1).entries.at(0).is_over);
  progress.leave(ids.back());
  CHECK(look.recorder(1).entries.at(0).is_over);
  progress.remove_group(group);
}

TEST_CASE("a child of fork writes on no page that anybody reads") {
  const ProgressLook look = look_at_this_process();
  note_step(5);
  const pid_t child = ::fork();
  if (child == 0) {
    note_step(6);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(look.progress().step == 5);
}

TEST_CASE("a record of a process is that of its page where its libtorch has recorded nothing") {
  look_at_this_process();
  Progress& progress = Progress::instance();
  launcher::why::RankRecord record(::getpid());
  record.search();
  CHECK(record.is_found());
  const std::uint64_t id = progress.enter({.operation = "reduce", .sequence = 3, .elements = 2});
  CHECK(record.read(8).entries.back().operation == "reduce");
  CHECK_FALSE(record.read(8).entries.back().is_over);
  progress.leave(id);
}

}  // namespace
}  // namespace ddprun
