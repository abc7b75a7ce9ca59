#include "launcher/process/shm_files.h"

#include "tests/support/catch.h"

using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

constexpr uid_t kUser = 1000;
const std::chrono::system_clock::time_point kStart{1000h};

struct Job {
  std::set<pid_t> pids{4711};
  std::set<ino_t> held{42};
  [[nodiscard]] ShmEvidence evidence() const {
    return {.job_tag = "ddprun-abc", .user = kUser, .started = kStart, .pids = pids, .held = held};
  }
};

ShmFile file(std::string name, ino_t inode) {
  return {.name = std::move(name), .inode = inode, .owner = kUser, .born = kStart + 1s};
}

}  // namespace

TEST_CASE("a file named for the job is the job's") {
  CHECK(is_made_by(file("ddprun-abc-17", 1), Job().evidence()));
}

TEST_CASE("a file that the job's processes held is the job's") {
  CHECK(is_made_by(file("psm_5e0f", 42), Job().evidence()));
}

TEST_CASE("a file that is named for a worker is the job's") {
  CHECK(is_made_by(file("torch_4711_99_0", 1), Job().evidence()));
}

TEST_CASE("a file of which nothing is known is kept") {
  CHECK_FALSE(is_made_by(file("psm_5e0f", 43), Job().evidence()));
  CHECK_FALSE(is_made_by(file("torch_47110_99_0", 43), Job().evidence()));
  CHECK_FALSE(is_made_by(file("torch_99_4711_0", 43), Job().evidence()));
  CHECK_FALSE(is_made_by(file("plain", 43), Job().evidence()));
}

TEST_CASE("a file that was there before the job is kept, even if its workers used it") {
  ShmFile older = file("psm_5e0f", 42);
  older.born = kStart - 1s;
  CHECK_FALSE(is_made_by(older, Job().evidence()));
}

TEST_CASE("a file whose age the kernel does not tell is kept") {
  ShmFile ageless = file("torch_4711_99_0", 42);
  ageless.born.reset();
  CHECK_FALSE(is_made_by(ageless, Job().evidence()));
}

TEST_CASE("another user's file is kept") {
  ShmFile foreign = file("torch_4711_99_0", 42);
  foreign.owner = kUser + 1;
  CHECK_FALSE(is_made_by(foreign, Job().evidence()));
}

TEST_CASE("the inodes of mapped files are read from maps") {
  constexpr std::string_view kMaps =
      "55d0-55d1 r--p 00000000 08:01 7                          /usr/bin/python3\n"
      "7f00-7f10 rw-s 00000000 00:19 42                         /dev/shm/psm_5e0f\n"
      "7f10-7f20 rw-s 00001000 00:19 42                         /dev/shm/psm_5e0f\n"
      "7f20-7f30 rw-s 00000000 00:19 43 /dev/shm/torch_1 (deleted)\n"
      "7f30-7f40 rw-p 00000000 00:00 0 \n";
  CHECK(mapped_shm_files(kMaps) == std::set<ino_t>{42, 43});
  CHECK(mapped_shm_files("").empty());
  CHECK(mapped_shm_files(" /dev/shm/").empty());
}
