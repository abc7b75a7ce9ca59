#include "tests/support/catch.h"
#include "tests/unit/checkpoint/no_descriptors.h"
#include "tests/unit/checkpoint/no_locks.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/live_folder.h"
#include <ddprun/checkpoint.h>
#include <ddprun/pt_file.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <span>

using namespace ddprun;
using ddprun::testing::NoDescriptors;
using ddprun::testing::NoLocks;
using ddprun::testing::TemporaryFolder;

namespace {

std::vector<std::int64_t> steps(const CheckpointDirectory& directory) {
  std::vector<std::int64_t> all;
  for (const auto& entry : directory.list()) all.push_back(entry.step);
  return all;
}

}  // namespace

TEST_CASE("a checkpoint directory keeps the newest") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.file("checkpoints"), 2);
  for (const int step : {5, 100, 20, 30}) directory.save(step, step);
  CHECK(steps(directory) == std::vector<std::int64_t>{100, 30});
}

TEST_CASE(
    "what a link in the folder leads to, what somebody reads and what has another name stays as it is") {
  const TemporaryFolder folder, elsewhere;
  CheckpointDirectory directory(folder.path(), 3);
  save_pt(elsewhere.file("run1.pt"), "of another run");
  std::filesystem::create_symlink(elsewhere.file("run1.pt"), folder.file("step-00000001.pt"));
  for (const int step : {2, 3, 4, 5}) directory.save(step, step);
  CHECK(steps(directory) == std::vector<std::int64_t>{5, 4, 3});
  CHECK(load_pt(elsewhere.file("run1.pt")).as_string() == "of another run");
}

TEST_CASE("a checkpoint that somebody reads, or that has another name, is removed and not changed") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  const std::string read = directory.save(1, "read");
  const std::string linked = directory.save(2, "linked");
  directory.save(3, 3);
  std::filesystem::create_hard_link(linked, folder.file("mine.pt"));
  std::ifstream reader(read, std::ios::binary);
  for (const int step : {4, 5}) directory.save(step, std::string(200, 'y'));
  CHECK(steps(directory) == std::vector<std::int64_t>{5, 4, 3});
  CHECK(load_pt(folder.file("mine.pt")).as_string() == "linked");
  const std::string bytes(std::istreambuf_iterator<char>(reader), {});
  CHECK(parse_pt(std::as_bytes(std::span(bytes)), "it").as_string() == "read");
}

TEST_CASE("the checkpoint just written is never the one removed") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1);
  directory.save(100, 1);
  const std::string path = directory.save(7, 2);
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("a link whose disk is not mounted, or a file, is not taken for a folder without checkpoints") {
  const TemporaryFolder folder;
  const std::string link = folder.file("link"), file = folder.file("file");
  std::filesystem::create_symlink("/nowhere/scratch", link);
  std::ofstream(file) << "text";
  const auto refusal = [](const std::string& path, const std::string& why) {
    CHECK_THROWS_WITH(CheckpointDirectory(path, 3).list(),
                      "cannot list folder " + path + ", so what it holds is not known: " + why);
  };
  const std::string missing =
      link + " is a link to /nowhere/scratch, where nothing is; mount what belongs there, or remove the link";
  refusal(link, missing);
  refusal(link + "/checkpoints", missing);
  refusal(file, file + " is no folder");
  refusal(file + "/checkpoints", file + " is no folder");
  CHECK(CheckpointDirectory(folder.file("none/checkpoints"), 3).list().empty());
}

TEST_CASE("a checkpoint directory that is not there has no checkpoints") {
  CHECK(CheckpointDirectory("/nowhere", 3).list().empty());
  CHECK_FALSE(CheckpointDirectory("/nowhere", 3).load_newest(nullptr));
}

namespace {

/// What `work` refuses as the system's failure, with no descriptor left.
std::string refusal_without_descriptors(const std::function<void()>& work) {
  const NoDescriptors none;
  try {
    work();
  } catch (const Exception& exception) {
    return exception.code() == ErrorCode::kOs ? exception.what() : "another kind";
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a checkpoint directory that cannot be read is not taken for an empty one") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  directory.save(7, 7);
  const std::string why =
      "cannot list folder " + folder.path() + ", so what it holds is not known: Too many open files";
  CHECK(refusal_without_descriptors([&] { static_cast<void>(directory.list()); }) == why);
  CHECK(refusal_without_descriptors([&] { static_cast<void>(directory.load_newest(nullptr)); }) == why);
}

TEST_CASE("an entry of a checkpoint directory that cannot be looked at is not passed over") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  const std::string entry = folder.file("step-00000009.pt");
  std::filesystem::create_symlink(std::string(300, 'x'), entry);
  CHECK(directory.list().front().path == entry);
  CHECK_THROWS_WITH(directory.load_newest(nullptr), "cannot open " + entry + ": File name too long");
  CHECK(std::filesystem::exists(directory.save(10, 10)));
}

TEST_CASE("a truncated newest checkpoint is passed over, and the caller is told why") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  directory.save(1, "one");
  std::filesystem::resize_file(directory.save(2, "two"), 50);
  std::string told;
  const auto loaded = directory.load_newest(
      [&](const auto& entry, const std::string& why) { told = std::to_string(entry.step) + ": " + why; });
  CHECK(loaded->value.as_string() == "one");
  CHECK(told == "2: cannot read " + folder.file("step-00000002.pt") +
                    ": it is truncated or not a .pt file: its 50 bytes do not end with a zip directory");
}

TEST_CASE("what a killed writer left is no checkpoint and goes with the next save") {
  const TemporaryFolder folder;
  const std::string leftover = folder.file(".step-00000009.pt.ddprun-0123abcd.tmp");
  std::ofstream(leftover) << "half";
  CheckpointDirectory directory(folder.path(), 3);
  CHECK(directory.list().empty());
  directory.save(1, 1);
  CHECK_FALSE(std::filesystem::exists(leftover));
}

TEST_CASE("where there are no locks, half a checkpoint that nobody has written to for a day is removed") {
  const TemporaryFolder folder;
  const std::string old = folder.file(".step-00000008.pt.ddprun-0123abcd.tmp");
  const std::string fresh = folder.file(".step-00000009.pt.ddprun-0123abcd.tmp");
  for (const std::string& path : {old, fresh}) std::ofstream(path) << "half";
  std::filesystem::last_write_time(old,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  const NoLocks there_are_none;
  CheckpointDirectory(folder.path(), 1).save(1, 1);
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(fresh));
}

TEST_CASE("what somebody is writing into a checkpoint directory is nobody's leftover") {
  const TemporaryFolder folder;
  auto file = runtime::AtomicFile::create(folder.file("final.pt"));
  REQUIRE(file.has_value());
  CheckpointDirectory(folder.path(), 3).save(1, 1);
  REQUIRE(file->write(std::as_bytes(std::span("whole", 5))).has_value());
  CHECK(file->commit().has_value());
  CHECK(std::filesystem::file_size(folder.file("final.pt")) == 5);
}

TEST_CASE("temporary files of other programs in a checkpoint directory stay") {
  const TemporaryFolder folder;
  const std::array<const char*, 5> theirs{".notes.tmp", ".step-1.pt.123.tmp", ".ddprun-0123abcd.tmp",
                                          ".a.ddprun-0123abcg.tmp", "a.ddprun-0123abcd.tmp"};
  for (const char* name : theirs) std::ofstream(folder.file(name)) << "mine";
  REQUIRE(::mkfifo(folder.file(".a.ddprun-0123abcd.tmp").c_str(), 0600) == 0);
  CheckpointDirectory(folder.path(), 3).save(1, 1);
  for (const char* name : theirs) CHECK(std::filesystem::exists(folder.file(name)));
  CHECK(std::filesystem::exists(folder.file(".a.ddprun-0123abcd.tmp")));
}

TEST_CASE("two who write one file at a time both succeed, and leave one of their files whole") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.pt");
  auto one = runtime::AtomicFile::create(path);
  auto other = runtime::AtomicFile::create(path);
  REQUIRE(one.has_value());
  REQUIRE(other.has_value());
  REQUIRE(one->write(std::as_bytes(std::span("one", 3))).has_value());
  REQUIRE(other->write(std::as_bytes(std::span("other", 5))).has_value());
  CHECK(other->commit().has_value());
  CHECK(one->commit().has_value());
  std::ifstream content(path);
  CHECK(std::string(std::istreambuf_iterator<char>(content), {}) == "one");
}

TEST_CASE("files of other names in a checkpoint directory stay") {
  const TemporaryFolder folder;
  for (const char* name : {"best.pt", "step-x.pt", "step-12.pth"}) std::ofstream(folder.file(name)) << "mine";
  CheckpointDirectory directory(folder.path(), 1);
  directory.save(1, 1);
  directory.save(2, 2);
  CHECK(steps(directory) == std::vector<std::int64_t>{2});
  CHECK(std::filesystem::exists(folder.file("best.pt")));
  CHECK(std::filesystem::exists(folder.file("step-x.pt")));
}

TEST_CASE("a FIFO, a folder and a dangling link are no checkpoints, are not counted and stay") {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 2);
  directory.save(1, "one");
  REQUIRE(::mkfifo(folder.file("step-00000007.pt").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.file("step-00000008.pt"));
  std::filesystem::create_symlink("nowhere", folder.file("step-00000009.pt"));
  CHECK(directory.load_newest(nullptr)->value.as_string() == "one");
  directory.save(2, "two");
  CHECK(steps(directory) == std::vector<std::int64_t>{2, 1});
  CHECK(std::filesystem::exists(folder.file("step-00000008.pt")));
}

namespace {

using Entries = std::vector<CheckpointDirectory::Entry>;

std::optional<std::string> found_in(std::vector<Entries> listings, const std::set<std::string>& there) {
  std::size_t next = 0;
  const auto list = [&] { return listings.at(std::min(next++, listings.size() - 1)); };
  return runtime::first_of_live_folder(list, [&](const auto& entry) -> std::optional<std::string> {
    if (entry.path == "damaged") return std::nullopt;
    if (!there.contains(entry.path)) throw Exception(ErrorCode::kNotFound, "there is no " + entry.path);
    return entry.path;
  });
}

}  // namespace

TEST_CASE("what a writer has removed since the folder was listed is looked for in the next listing") {
  CHECK(found_in({{{1, "one"}}, {{2, "two"}}}, {"two"}) == "two");
  CHECK(found_in({{{2, "damaged"}, {1, "one"}}, {{3, "three"}, {2, "damaged"}}}, {"three"}) == "three");
}

TEST_CASE("that a folder has no checkpoint is said after two equal listings") {
  CHECK(found_in({{}, {{1, "one"}}}, {"one"}) == "one");
  CHECK_FALSE(found_in({{}, {}}, {}));
  CHECK_FALSE(found_in({{{1, "damaged"}}}, {}));
}

TEST_CASE("a folder that does not come to rest is refused with the last reason") {
  CHECK_THROWS_WITH(
      found_in({{{1, "one"}}}, {}),
      "the checkpoints of a folder were others each of the 100 times that it was listed, the last "
      "time: there is no one; is a job writing there?");
}

TEST_CASE("a folder in which another process writes is read without a gap") {
  const TemporaryFolder folder;
  CheckpointDirectory(folder.path(), 1).save(0, 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    CheckpointDirectory directory(folder.path(), 1);
    for (int step = 1;; ++step) directory.save(step, step);
  }
  int missing = 0;
  std::string trouble;
  try {
    for (int i = 0; i < 2000; ++i)
      missing += CheckpointDirectory(folder.path(), 1).load_newest(nullptr) ? 0 : 1;
  } catch (const Exception& exception) {
    trouble = exception.what();
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  CHECK(missing == 0);
  CHECK(trouble.empty());
}
