#include "tests/integration/membership/loopback_world.h"
#include "tests/support/catch.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Between a node and its coordinator stands a proxy that ends connections for reasons of its own. The node
// comes back under its old name: nobody waits for the time after which a silent node is lost, here fifty
// seconds.

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::membership::testing;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;

namespace {

Timing slow() { return {.debounce = 50ms, .heartbeat = 10s, .missed_heartbeats = 5}; }

using SocketPointer = std::shared_ptr<tcp::socket>;

/// Carries bytes both ways between whoever connects and 127.0.0.1:`to`.
class Proxy {
 public:
  Proxy(boost::asio::io_context& io, Port to)
      : io_(io),
        to_(boost::asio::ip::address_v4::loopback(), to.value()),
        door_(io, {boost::asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  ~Proxy() { cut_both(); }

  [[nodiscard]] Port port() const { return Port(door_.local_endpoint().port()); }
  /// Ends the latest connection on the agent's side; the coordinator's stays open.
  void cut_agent() { end(agent_); }
  void cut_both() {
    end(agent_);
    end(coordinator_);
  }

 private:
  static void end(const SocketPointer& socket) {
    boost::system::error_code ignored;
    if (socket) socket->close(ignored);
  }

  void accept() {
    door_.async_accept([this](boost::system::error_code error, tcp::socket agent) {
      if (error) return;
      agent_ = std::make_shared<tcp::socket>(std::move(agent));
      left_open_.push_back(std::exchange(coordinator_, std::make_shared<tcp::socket>(io_)));
      coordinator_->connect(to_);
      carry(agent_, coordinator_);
      carry(coordinator_, agent_);
      accept();
    });
  }

  static void carry(const SocketPointer& from, const SocketPointer& to) {
    auto bytes = std::make_shared<std::array<char, 4096>>();
    from->async_read_some(boost::asio::buffer(*bytes),
                          [from, to, bytes](boost::system::error_code error, std::size_t size) {
                            boost::system::error_code lost;
                            if (error == boost::asio::error::eof)
                              to->shutdown(tcp::socket::shutdown_send, lost);
                            if (error) return;
                            boost::asio::write(*to, boost::asio::buffer(*bytes, size), lost);
                            carry(from, to);
                          });
  }

  boost::asio::io_context& io_;
  tcp::endpoint to_;
  tcp::acceptor door_;
  SocketPointer agent_;
  SocketPointer coordinator_;
  std::vector<SocketPointer> left_open_;
};

/// Two nodes of a running job, the second behind a proxy.
struct CutWorld {
  explicit CutWorld(std::optional<NodeRank> pinned) {
    MemberOptions behind = world.fitting("b");
    behind.port = proxy.port();
    behind.node.pinned = pinned;
    far = &world.join(behind);
    await_round(1);
  }

  void await_round(std::size_t count) {
    INFO("round " << count);
    world.run_until([&] { return near.rounds.size() == count && far->rounds.size() == count; }, 20s);
    INFO((far->failed ? far->failed->message() : "the node behind the proxy goes on"));
    REQUIRE(near.rounds.size() == count);
    REQUIRE(far->rounds.size() == count);
    CHECK(near.rounds.back().seat.node_rank == NodeRank(0));
    CHECK(far->rounds.back().seat.node_rank == NodeRank(1));
  }

  void check_ends() {
    near.member->workers_succeeded();
    far->member->workers_succeeded();
    REQUIRE(world.run_until([&] { return near.end && far->end; }));
    CHECK(near.end->exit_code == 0);
    CHECK(far->end->exit_code == 0);
    CHECK(world.run_until([&] { return world.coordinator->is_done(); }));
  }

  LoopbackWorld world{{.run_id = "cifar", .min_nodes = 2, .max_nodes = 2, .max_restarts = 9}, slow()};
  Proxy proxy{world.io, world.coordinator->port()};
  LoopbackNode& near = world.join("a");
  LoopbackNode* far = nullptr;
};

const std::vector<std::optional<NodeRank>> kPins{std::nullopt, NodeRank(1)};

}  // namespace

TEST_CASE("a connection that is cut on both sides costs one restart and no waiting") {
  for (const auto& pinned : kPins) {
    CutWorld cut(pinned);
    cut.proxy.cut_both();
    cut.await_round(2);
    cut.check_ends();
  }
}

TEST_CASE("a connection that is cut on the agent's side alone costs one restart, and holds up no end") {
  for (const auto& pinned : kPins) {
    CutWorld cut(pinned);
    cut.proxy.cut_agent();
    cut.await_round(2);
    cut.check_ends();
  }
}

TEST_CASE("a connection that is cut twice in a row is replaced twice") {
  for (const auto& pinned : kPins) {
    CutWorld cut(pinned);
    cut.proxy.cut_agent();
    cut.await_round(2);
    cut.proxy.cut_agent();
    cut.await_round(3);
    cut.check_ends();
  }
}
