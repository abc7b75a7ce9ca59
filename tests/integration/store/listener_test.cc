#include "rendezvous/store/listener.h"

#include "tests/support/catch.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::store;

TEST_CASE("port 0 becomes a real port") {
  const Listener listener = std::move(listen_on("127.0.0.1", Port(0)).value());
  CHECK(listener.port.value() != 0);
  CHECK_FALSE(listener.is_ipv6);
}

TEST_CASE("a port in use is named, with what to do") {
  const Listener first = std::move(listen_on("127.0.0.1", Port(0)).value());
  const Result<Listener> second = listen_on("127.0.0.1", first.port);
  REQUIRE(second.has_error());
  CHECK(second.error().code() == ErrorCode::kUnavailable);
  CHECK(second.error().message() ==
        fmt::format(
            "cannot listen on 127.0.0.1:{}: Address already in use; end the program that holds the port, or "
            "choose another (0 takes any)",
            first.port));
}

TEST_CASE("a port in use on one address is in use everywhere") {
  const Listener first = std::move(listen_on("", Port(0)).value());
  CHECK(listen_on("", first.port).has_error());
}

TEST_CASE("an address of another machine cannot be listened on") {
  CHECK(listen_on("192.0.2.1", Port(0)).error().message() ==
        "cannot listen on 192.0.2.1:0: Cannot assign requested address");
}

TEST_CASE("a listening socket is close-on-exec and does not block") {
  const Listener listener = std::move(listen_on("127.0.0.1", Port(0)).value());
  CHECK((::fcntl(listener.fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(listener.fd.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK_FALSE(accept_connection(listener.fd.get()));
}

TEST_CASE("an inherited socket is adopted with its port") {
  Listener made = std::move(listen_on("127.0.0.1", Port(0)).value());
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
