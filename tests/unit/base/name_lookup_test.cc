#include "rendezvous/base/name_lookup.h"

#include "tests/support/catch.h"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace ddprun;

namespace {

// Longer than a part of a name may be: no name server is asked for it.
const std::string kNoName = std::string(64, 'x');

/// What a NameLookup has said after a run of the loop.
std::vector<Result<HostAddresses>> ask(const std::string& host) {
  boost::asio::io_context io{1};
  NameLookup lookup(io);
  std::vector<Result<HostAddresses>> said;
  lookup.start(host, [&](const Result<HostAddresses>& addresses) { said.push_back(addresses); });
  CHECK(said.empty());
  io.run();
  return said;
}

}  // namespace

TEST_CASE("an address is its own only one") {
  CHECK(look_up("127.0.0.1").value() == HostAddresses{"127.0.0.1"});
  CHECK(look_up("::1").value() == HostAddresses{"::1"});
}

TEST_CASE("a name that nobody knows is named, with why") {
  const Result<HostAddresses> nothing = look_up(kNoName);
  REQUIRE(nothing.has_error());
  CHECK(nothing.error().code() == ErrorCode::kUnavailable);
  CHECK(nothing.error().message() ==
        "the name " + kNoName + " cannot be resolved (name or service not known)");
}

TEST_CASE("beside the loop a name is looked up once, and what was found comes from the loop") {
  const auto said = ask("127.0.0.1");
  REQUIRE(said.size() == 1);
  CHECK(said.front().value() == HostAddresses{"127.0.0.1"});
}

TEST_CASE("beside the loop a name that nobody knows is told with the same words") {
  const auto said = ask(kNoName);
  REQUIRE(said.size() == 1);
  REQUIRE(said.front().has_error());
  CHECK(said.front().error().message() == look_up(kNoName).error().message());
}

TEST_CASE("a name whose asker is gone is told to nobody, and keeps no loop") {
  boost::asio::io_context io{1};
  bool is_told = false;
  {
    NameLookup lookup(io);
    lookup.start("127.0.0.1", [&](const Result<HostAddresses>&) { is_told = true; });
  }
  io.run();
  CHECK_FALSE(is_told);
}
