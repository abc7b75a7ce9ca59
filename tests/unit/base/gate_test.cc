#include "rendezvous/base/gate.h"

#include "rendezvous/base/alarm.h"
#include "tests/support/catch.h"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <memory>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("asio runs a handler that was queued before its timer was cancelled, and calls that success") {
  boost::asio::io_context io;
  boost::asio::basic_waitable_timer<BootClock> first(io, TimePoint{});
  boost::asio::basic_waitable_timer<BootClock> second(io, TimePoint{});
  std::string seen;
  first.async_wait([&](boost::system::error_code) { second.cancel(); });
  second.async_wait([&](boost::system::error_code error) { seen = error ? "cancelled" : "success"; });
  io.run();
  CHECK(seen == "success");  // otherwise nobody needs a gate
}

TEST_CASE("a handler that is queued already does not run once its gate is closed") {
  boost::asio::io_context io;
  Gate gate;
  int runs = 0;
  boost::asio::post(io, gate.pass([&] { gate.close(); }));
  boost::asio::post(io, gate.pass([&] { ++runs; }));
  io.run();
  CHECK(runs == 0);
  CHECK_FALSE(gate.is_open());
}

TEST_CASE("nor when its owner is gone") {
  boost::asio::io_context io;
  auto gate = std::make_unique<Gate>();
  int runs = 0;
  boost::asio::post(io, gate->pass([&] { ++runs; }));
  gate.reset();
  io.run();
  CHECK(runs == 0);
}

TEST_CASE("a closed gate lets nothing pass any more") {
  Gate gate;
  gate.close();
  gate.turn_away();
  int runs = 0;
  gate.pass([&] { ++runs; })();
  CHECK(runs == 0);
}

TEST_CASE("what comes after those that were turned away runs, with its arguments") {
  Gate gate;
  int sum = 0;
  auto before = gate.pass([&](int value) { sum += value; });
  gate.turn_away();
  auto after = gate.pass([&](int value) { sum += value; });
  before(1);
  after(2);
  after(4);
  CHECK(sum == 6);
}

TEST_CASE("an alarm whose time has come does not ring once it is cancelled, set again or destroyed") {
  boost::asio::io_context io;
  Alarm first(io);
  Alarm cancelled(io);
  Alarm set_again(io);
  auto destroyed = std::make_unique<Alarm>(io);
  std::string rung;
  first.set_at(TimePoint{}, [&] {
    cancelled.cancel();
    set_again.set_after(1ms, [&] { rung += "again "; });
    destroyed.reset();
  });
  cancelled.set_at(TimePoint{} + 1ns, [&] { rung += "cancelled "; });
  set_again.set_at(TimePoint{} + 1ns, [&] { rung += "former "; });
  destroyed->set_at(TimePoint{} + 1ns, [&] { rung += "destroyed "; });
  CHECK(set_again.is_set());
  io.run();
  CHECK(rung == "again ");
  CHECK_FALSE(set_again.is_set());
}

TEST_CASE("a closed alarm cannot be set") {
  boost::asio::io_context io;
  Alarm alarm(io);
  alarm.close();
  alarm.set_after(1ms, [] { FAIL("it rang"); });
  io.run();
  CHECK_FALSE(alarm.is_set());
}
