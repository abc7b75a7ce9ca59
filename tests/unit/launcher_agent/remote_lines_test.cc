#include "launcher/output/remote_lines.h"

#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// A console whose other end is read only when the test says so.
struct PipeConsole {
  PipeConsole() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
    console.emplace(io, files, writer.get(), "stdout");
  }
  std::string read_now() {
    std::string text(1 << 20, '\0');
    const ssize_t count = ::read(reader.get(), text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }
  void read_everything() {
    while (console->backlog_bytes() > 0) {
      read_now();
      io.restart();
      io.poll();
    }
    read_now();
  }

  boost::asio::io_context io{1};
  FileWriters files{io};
  UniqueFd reader;
  UniqueFd writer;
  std::optional<Console> console;
};

}  // namespace

TEST_CASE("half a line of one node is ended before a line of another") {
  PipeConsole out;
  RemoteLines lines(*out.console, *out.console);
  lines.show(ConnectionId(1), "node a", false, "half", 0);
  lines.show(ConnectionId(2), "node b", false, "whole\n", 0);
  CHECK(out.read_now() == "half\nwhole\n");
}

TEST_CASE("what did not come from a node is said before what did") {
  PipeConsole out;
  RemoteLines lines(*out.console, *out.console);
  lines.show(ConnectionId(1), "node a", false, "later\n", 7);
  CHECK(out.read_now() ==
        "ddprun: 7 lines of node a are missing here: they came faster than the connection takes them, or it "
        "was "
        "lost\nlater\n");
}

TEST_CASE(
    "a console that takes nothing gets a bounded backlog; the rest is counted and said when it takes some") {
  PipeConsole out;
  RemoteLines lines(*out.console, *out.console);
  const std::string block = std::string(99, 'x') + "\n";
  for (int i = 0; i < 1'000'000; ++i) lines.show(ConnectionId(1), "node a", false, block, 0);
  CHECK(out.console->backlog_bytes() <= RemoteLines::kMostBacklog);
  const auto kept = (out.console->backlog_bytes() + 65536) / block.size();
  CHECK(kept < 600'000);
  out.read_everything();
  lines.show(ConnectionId(2), "node b", false, "again\n", 0);
  const std::string said = out.read_now();
  CHECK_THAT(said,
             StartsWith("ddprun: ") && Contains(" lines of node a are missing here: they came faster than "
                                                "this console takes them\nagain\n"));
  CHECK(std::stoul(said.substr(8)) >= 400'000);
}
