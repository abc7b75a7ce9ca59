#include "rendezvous/base/beside_loop.h"

#include "tests/support/catch.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

using namespace ddprun;

namespace {

int no_thread(int) { return -1; }

/// Work that is not over before open().
class HeldWork {
 public:
  BesideLoop<int>::Work work(int result) {
    return [opened = opened_, result] {
      opened.wait();
      return result;
    };
  }
  void open() { gate_.set_value(); }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
};

}  // namespace

TEST_CASE("the loop goes on while a result is waited for, and gets it once, on its own thread") {
  boost::asio::io_context io{1};
  BesideLoop<int> beside(io);
  HeldWork held;
  std::vector<int> results;
  std::thread::id there;
  beside.start(held.work(7), no_thread, [&](int result) {
    results.push_back(result);
    there = std::this_thread::get_id();
  });
  bool is_running = false;
  boost::asio::post(io, [&] { is_running = true; });
  io.run_one();
  CHECK(is_running);
  CHECK(results.empty());
  held.open();
  io.run();  // until nothing keeps it
  CHECK(results == std::vector{7});
  CHECK(there == std::this_thread::get_id());
}

TEST_CASE("work that is wanted no more keeps nobody, and nobody hears of it") {
  boost::asio::io_context io{1};
  HeldWork held;
  bool is_called = false;
  {
    BesideLoop<int> beside(io);
    beside.start(held.work(7), no_thread, [&](int) { is_called = true; });
  }
  io.run_for(std::chrono::seconds(20));
  CHECK(io.stopped());  // although the work is not over
  held.open();
  io.restart();
  io.run();
  CHECK_FALSE(is_called);
}

TEST_CASE("a result that is on its way when nobody wants it any more is not told") {
  boost::asio::io_context io{1};
  auto beside = std::make_unique<BesideLoop<int>>(io);
  bool is_called = false;
  boost::asio::post(io, [&] { beside.reset(); });
  std::promise<void> done;
  beside->start(
      [&done] {
        done.set_value();
        return 7;
      },
      no_thread, [&](int) { is_called = true; });
  done.get_future().wait();
  io.run();
  CHECK_FALSE(is_called);
}

TEST_CASE("it may be destroyed, and started again, from within what it calls") {
  boost::asio::io_context io{1};
  auto beside = std::make_unique<BesideLoop<int>>(io);
  std::vector<int> results;
  beside->start([] { return 1; }, no_thread,
                [&](int first) {
                  results.push_back(first);
                  beside->start([] { return 2; }, no_thread,
                                [&](int second) {
                                  results.push_back(second);
                                  beside.reset();
                                });
                });
  io.run();
  CHECK(results == std::vector{1, 2});
}
