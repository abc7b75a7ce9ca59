#include "worker/runtime/comm/shm/segment.h"

#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"
#include "worker/runtime/comm/shm/arena.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

using namespace ddprun;
using namespace ddprun::runtime::shm;

namespace {

std::size_t count_open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

/// Lowers a limit while it lives.
class LowerLimit {
 public:
  LowerLimit(__rlimit_resource which, rlim_t to) : which_(which) {
    ::getrlimit(which_, &before_);
    const rlimit lower{to, before_.rlim_max};
    ::setrlimit(which_, &lower);
  }
  ~LowerLimit() { ::setrlimit(which_, &before_); }

 private:
  __rlimit_resource which_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a segment opened by its address is the same memory") {
  const auto mine = Segment::create(testing::small_shape(2)).value();
  const auto text = mine->address().value().to_text();
  const auto theirs = Segment::open(SegmentAddress::parse(text).value()).value();
  mine->slot(1, 1)[17] = std::byte{42};
  CHECK(theirs->slot(1, 1)[17] == std::byte{42});
  CHECK(theirs->shape().slot_bytes == mine->shape().slot_bytes);
}

TEST_CASE("a segment has no name and leaves no descriptor") {
  const std::size_t before = count_open_files();
  {
    const auto segment = Segment::create(testing::small_shape(2)).value();
    CHECK(count_open_files() == before + 1);
    const std::filesystem::path descriptor = "/proc/self/fd/" + std::to_string(segment->address().value().fd);
    CHECK(std::filesystem::read_symlink(descriptor) == "/memfd:ddprun (deleted)");
  }
  CHECK(count_open_files() == before);
}

TEST_CASE("an address of another host is refused with both names") {
  const auto segment = Segment::create(testing::small_shape(2)).value();
  auto address = segment->address().value();
  const std::string here = address.host;
  address.host = "elsewhere/pid:[1]";
  CHECK(Segment::open(address).error().message() ==
        "this process is on another host or in another pid namespace (" + here +
            ") than the one that made the segment (elsewhere/pid:[1])");
}

TEST_CASE("a descriptor that is not the announced segment is refused") {
  const auto segment = Segment::create(testing::small_shape(2)).value();
  auto address = segment->address().value();
  ++address.nonce;
  const std::string path = "/proc/" + std::to_string(address.owner.pid) + "/fd/" + std::to_string(address.fd);
  CHECK(Segment::open(address).error().message() ==
        path + " is not the shared segment that was announced; has its creator (pid " +
            std::to_string(address.owner.pid) + ") ended?");
  address.fd = 9999;
  CHECK(Segment::open(address).error().message() == "cannot open the shared segment /proc/" +
                                                        std::to_string(address.owner.pid) +
                                                        "/fd/9999: No such file or directory");
}

TEST_CASE("garbage is not an address") {
  CHECK(SegmentAddress::parse("hello").error().message() ==
        "\"hello\" is not the address of a shared segment");
}

TEST_CASE("a limit on file sizes shrinks the arenas, and a low one is told") {
  const SegmentShape wanted{
      .size = 2, .slot_bytes = 4096, .channel_bytes = 4096, .arena_bytes = std::size_t{1} << 30U};
  {
    const LowerLimit limit(RLIMIT_FSIZE, 64U << 20U);
    const auto segment = Segment::create(wanted).value();
    CHECK(segment->shape().arena_bytes < (32U << 20U));
    CHECK(segment->shape().arena_bytes > (8U << 20U));
  }
  const LowerLimit limit(RLIMIT_FSIZE, 1U << 20U);
  CHECK(Segment::create(wanted).error().message() ==
        "a shared segment for 2 ranks needs 2097152 bytes, but ulimit -f or -v allows 1048576; raise the "
        "limit, or use gloo");
}

TEST_CASE("more ranks than can be served are told to use gloo") {
  CHECK(Segment::create({.size = 257}).error().message() ==
        "257 ranks on one host, but shared memory collectives are made for at most 256; use gloo");
}

TEST_CASE("an arena gives out pieces that do not overlap, and takes them back") {
  const auto segment = Segment::create(testing::small_shape(2)).value();
  Arena arena(segment, 1);
  std::byte* const a = arena.allocate(100);
  std::byte* const b = arena.allocate(100);
  REQUIRE(a != nullptr);
  CHECK(b >= a + 128);
  CHECK(reinterpret_cast<std::uintptr_t>(b) % 64 == 0);
  CHECK(arena.used() == 256);
  arena.free(a);
  arena.free(b);
  CHECK(arena.used() == 0);
  CHECK(arena.allocate(200) == a);
}

TEST_CASE("an arena that is full says so, and has room again when neighbours are freed") {
  const auto segment = Segment::create(testing::small_shape(1)).value();
  Arena arena(segment, 0);
  const std::size_t quarter = segment->shape().arena_bytes / 4;
  std::vector<std::byte*> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(arena.allocate(quarter));
  CHECK(arena.allocate(1) == nullptr);
  arena.free(pieces[2]);
  CHECK(arena.allocate(2 * quarter) == nullptr);
  arena.free(pieces[1]);
  CHECK(arena.allocate(2 * quarter) == pieces[1]);
}

TEST_CASE("a process is told apart from one that has ended, and from a later one of its pid") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const ProcessIdentity identity{.pid = child, .start_time = start_time_of(child).value().value()};
  PeerWatch watch(3);
  CHECK_FALSE(watch.is_dead(0, identity));
  CHECK(watch.is_dead(1, {.pid = child, .start_time = identity.start_time + 1}));
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // ended, not reaped
  CHECK(watch.is_dead(0, identity));
  CHECK(watch.is_dead(2, identity));
  ::waitpid(child, nullptr, 0);
  CHECK(watch.is_dead(0, identity));
}

TEST_CASE("a process without a free descriptor does not take its peers for dead") {
  const ProcessIdentity self = this_process().value();
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  PeerWatch watch(2);
  const LowerLimit no_descriptors(RLIMIT_NOFILE, 0);
  CHECK_FALSE(watch.is_dead(0, self));
  CHECK(watch.is_dead(1, {.pid = gone, .start_time = self.start_time}));
}
