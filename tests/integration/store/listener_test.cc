#include "rendezvous/store/listener.h"

#include "tests/support/catch.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace ddprun;
using namespace ddprun::store;
using namespace std::chrono_literals;

namespace {

std::atomic<int> not_yet_at_listen = 0;
thread_local bool waits_at_listen = false;

/// A port for as long as it lives: bound without listening, so that whoever sets SO_REUSEADDR can listen there, and the
/// kernel gives it to nobody else.
struct ReservedPort {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Port port;

  ReservedPort() {
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = Port(ntohs(address.sin_port));
  }
};

}  // namespace

/// In place of the C library's: threads that wait here go on at the same moment.
extern "C" int listen(int fd, int backlog) noexcept {
  if (std::exchange(waits_at_listen, false)) {
    --not_yet_at_listen;
    while (not_yet_at_listen > 0) std::this_thread::yield();
  }
  return static_cast<int>(::syscall(SYS_listen, fd, backlog));
}

TEST_CASE("of two that listen on a port at the same moment, one has it") {
  // Without care neither has it, about once in 10,000 rounds on two cores: Linux marks a socket as listening before it
  // looks for others, so that each may see the other's mark and give up.
  constexpr int kRounds = 60'000;
  const auto enough = std::chrono::steady_clock::now() + 5s;  // of a busy machine
  const ReservedPort reserved;
  std::atomic<int> round = 0;  ///< negative: no more
  std::atomic<bool> is_done = false;
  Result<Listener> other = Error(ErrorCode::kUnavailable, "");
  const auto race = [&] {
    waits_at_listen = true;
    return listen_on({.host = "127.0.0.1", .port = reserved.port});
  };
  std::thread thread([&] {
    for (int i = 1;; ++i) {
      while (round != i && round >= 0) std::this_thread::yield();
      if (round < 0) return;
      other = race();
      is_done = true;
    }
  });
  int winners[3] = {};
  for (int i = 1; i <= kRounds && std::chrono::steady_clock::now() < enough; ++i) {
    not_yet_at_listen = 2;
    is_done = false;
    round = i;
    const Result<Listener> mine = race();
    while (!is_done) std::this_thread::yield();
    ++winners[(mine ? 1 : 0) + (other ? 1 : 0)];
    other = Error(ErrorCode::kUnavailable, "");
  }
  round = -1;
  thread.join();
  CHECK(winners[1] > 0);
  CHECK(winners[0] == 0);
  CHECK(winners[2] == 0);
}

TEST_CASE("port 0 becomes a real port") {
  const Listener listener = std::move(listen_on({.host = "127.0.0.1", .port = Port(0)}).value());
  CHECK(listener.port.value() != 0);
  CHECK_FALSE(listener.is_ipv6);
}

TEST_CASE("a port in use is named, with what to do") {
  const Listener first = std::move(listen_on({.host = "127.0.0.1", .port = Port(0)}).value());
  const Result<Listener> second = listen_on({.host = "127.0.0.1", .port = first.port});
  REQUIRE(second.has_error());
  CHECK(second.error().code() == ErrorCode::kUnavailable);
  CHECK(second.error().message() ==
        fmt::format(
            "cannot listen on 127.0.0.1:{}: Address already in use; end the program that holds the port, or "
            "choose another (0 takes any)",
            first.port));
}

TEST_CASE("a port in use on one address is in use everywhere") {
  const Listener first = std::move(listen_on({.host = "", .port = Port(0)}).value());
  CHECK(listen_on({.host = "", .port = first.port}).has_error());
}

TEST_CASE("an address of another machine cannot be listened on") {
  CHECK(listen_on({.host = "192.0.2.1", .port = Port(0)}).error().message() ==
        "cannot listen on 192.0.2.1:0: Cannot assign requested address");
}

TEST_CASE("a listening socket is close-on-exec and does not block") {
  const Listener listener = std::move(listen_on({.host = "127.0.0.1", .port = Port(0)}).value());
  CHECK((::fcntl(listener.fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(listener.fd.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK_FALSE(accept_connection(listener.fd.get()));
}

TEST_CASE("an inherited socket is adopted with its port") {
  Listener made = std::move(listen_on({.host = "127.0.0.1", .port = Port(0)}).value());
  const Port port = made.port;
  const Listener adopted = std::move(adopt_listener(made.fd.release()).value());
  CHECK(adopted.port == port);
}

TEST_CASE("a descriptor that is no TCP socket is refused and left open") {
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Result<Listener> adopted = adopt_listener(file.get());
  REQUIRE(adopted.has_error());
  CHECK(adopted.error().code() == ErrorCode::kUsage);
  CHECK(
      adopted.error().message() ==
      fmt::format(
          "cannot serve on inherited descriptor {}: Socket operation on non-socket; pass a bound TCP socket",
          file.get()));
  CHECK(::fcntl(file.get(), F_GETFD) != -1);
}

TEST_CASE("a connected socket is refused") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd first(pair[0]);
  const UniqueFd second(pair[1]);
  CHECK(adopt_listener(first.get()).error().message() ==
        fmt::format("cannot serve on inherited descriptor {}: it is no TCP socket; pass a bound TCP socket",
                    first.get()));
}
