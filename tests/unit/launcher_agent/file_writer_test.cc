#include "launcher/output/file_writer.h"

#include "tests/support/catch.h"

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;

namespace {

/// A pipe stands for a file system that hangs until somebody reads.
struct HangingFile {
  UniqueFd read_end;
  UniqueFd write_end;

  HangingFile() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  /// Reads until nothing is written for a while, or to the end.
  std::string read_all() {
    std::string text;
    std::array<char, 65536> buffer;
    for (ssize_t count = 1; count > 0;) {
      count = ::read(read_end.get(), buffer.data(), buffer.size());
      if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
};

struct Loop {
  boost::asio::io_context io{1};
  FileWriter files{io};

  void run_until_written() {
    files.set_on_empty([this] { io.stop(); });
    io.restart();
    if (files.waiting_bytes() > 0) {
      io.run_for(std::chrono::seconds(20));
    } else {
      io.poll();  // the thread was faster than we; its news wait in the loop
    }
    REQUIRE(files.waiting_bytes() == 0);
  }
};

const std::string kMebibyte(1024 * 1024, 'x');

}  // namespace

TEST_CASE("what is written arrives in order, and a released file is closed at its end") {
  Loop loop;
  HangingFile file;
  FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kMarked);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    handle.write("line " + std::to_string(i) + "\n");
    expected += "line " + std::to_string(i) + "\n";
  }
  handle = FileWriter::Handle();
  CHECK(file.read_all() == expected);
  CHECK(loop.files.losses().empty());
}

TEST_CASE("a file that hangs holds up nobody, and gets a mark where bytes are missing") {
  Loop loop;
  HangingFile file;
  std::string said;
  FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kMarked);
  handle.set_on_trouble([&](const std::string& sentence) { said += sentence + "\n"; });
  for (int i = 0; i < 70; ++i) handle.write(kMebibyte);
  CHECK(said ==
        "f is written too slowly, and 64 MiB wait already for its file system; what comes now is dropped, "
        "and counted\n");
  const std::vector<LostOutput> before = loop.files.losses();
  REQUIRE(before.size() == 1);
  CHECK(before[0].bytes >= (70 << 20) - 65536);  // what waits, too
  std::string read;
  std::array<char, 65536> buffer;
  // Everything may be read before the thread has said so.
  ::fcntl(file.read_end.get(), F_SETFL, O_NONBLOCK);
  while (loop.files.waiting_bytes() > 0) {
    const ssize_t count = ::read(file.read_end.get(), buffer.data(), buffer.size());
    if (count > 0) read.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::fcntl(file.read_end.get(), F_SETFL, 0);
  handle.write("again\n");
  handle = FileWriter::Handle();
  read += file.read_all();
  CHECK_THAT(read, Contains(" bytes are missing here: the file system did not take them in time]\nagain\n"));
}

TEST_CASE("a writer whose file hangs for ever is left behind") {
  HangingFile file;
  {
    Loop loop;
    FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kUnmarked);
    handle.write(kMebibyte);
    std::array<char, 1> first;
    REQUIRE(::read(file.read_end.get(), first.data(), 1) == 1);  // the thread writes
    REQUIRE(loop.files.losses().at(0).bytes == kMebibyte.size());
    CHECK(loop.files.losses().at(0).why == "its file system did not take it in time");
  }
  file.read_end.reset();
}

TEST_CASE("a full device is an error that is counted") {
  Loop loop;
  std::string said;
  FileWriter::Handle handle =
      loop.files.add(UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)), "f", FileWriter::Gaps::kMarked);
  handle.set_on_trouble([&](const std::string& sentence) { said += sentence; });
  handle.write("12345");
  loop.run_until_written();
  CHECK(said == "cannot write f: No space left on device");
  CHECK(loop.files.losses().at(0).bytes == 5);
}

TEST_CASE("what comes while there is no descriptor for the thread is counted, and it starts later") {
  Loop loop;
  HangingFile file;
  std::string said;
  FileWriter::Handle closed =
      loop.files.add(UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), "c", FileWriter::Gaps::kMarked);
  FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kMarked);
  handle.set_on_trouble([&](const std::string& sentence) { said += sentence + "\n"; });
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK_NOTHROW(handle.write("12345"));
  CHECK_NOTHROW(handle.write("678"));
  CHECK_NOTHROW(closed.write("9"));
  closed = FileWriter::Handle();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(said == "cannot write f: its thread cannot be started: Too many open files\n");
  const std::vector<LostOutput> lost = loop.files.losses();
  REQUIRE(lost.size() == 2);
  CHECK(to_string(lost[0]) == "1 bytes for c are lost: Too many open files");
  CHECK(to_string(lost[1]) == "8 bytes for f are lost: Too many open files");
  handle.write("again\n");
  handle = FileWriter::Handle();
  CHECK(file.read_all() == "\n[ddprun: 8 bytes are missing here: Too many open files]\nagain\n");
}

TEST_CASE("a process forked while the thread writes can allocate and end") {
  Loop loop;
  HangingFile file;
  FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kMarked);
  std::array<char, 65536> buffer;
  for (int round = 0; round < 200; ++round) {
    handle.write(std::string(1000, 'x'));
    const pid_t pid = ::fork();
    if (pid == 0) {
      const std::string text(static_cast<std::size_t>(round) * 1000 + 1, 'y');
      ::_exit(text.back() == 'y' ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(status == 0);
    [[maybe_unused]] const ssize_t count = ::read(file.read_end.get(), buffer.data(), buffer.size());
  }
}

TEST_CASE("what is told as lost when nobody waits any longer is not written after all") {
  Loop loop;
  HangingFile file;
  FileWriter::Handle handle = loop.files.add(std::move(file.write_end), "f", FileWriter::Gaps::kUnmarked);
  for (int i = 0; i < 60; ++i) handle.write(kMebibyte);
  std::string read;
  std::thread reader([&] { read = file.read_all(); });
  loop.files.abandon();
  std::uint64_t lost = 0;
  for (const LostOutput& one : loop.files.losses()) lost += one.bytes;
  handle.write("and more\n");  // what comes afterwards is
  handle = FileWriter::Handle();
  reader.join();
  CHECK(lost > 0);
  CHECK(read.size() + lost == 60 * kMebibyte.size() + 9);
  CHECK_THAT(read, Catch::EndsWith("and more\n"));
}
