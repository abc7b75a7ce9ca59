#include "rendezvous/base/endpoint.h"

#include "tests/support/catch.h"

#include <optional>

using namespace ddprun;

TEST_CASE("an endpoint is read as it was written") {
  for (const Endpoint& endpoint : {Endpoint{"head", Port(29400)}, Endpoint{"::1", Port(1)},
                                   Endpoint{"10.0.0.2", Port(0)}, Endpoint{"head", std::nullopt}}) {
    CHECK(endpoint_of(to_string(endpoint)) == endpoint);
  }
  CHECK(to_string(Endpoint{"::1", Port(29400)}) == "[::1]:29400");
}

TEST_CASE("what is no port is none") {
  CHECK_FALSE(endpoint_of("head:").port);
  CHECK_FALSE(endpoint_of("head:http").port);
  CHECK_FALSE(endpoint_of("head:65536").port);
}
