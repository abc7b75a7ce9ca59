#include "worker/runtime/rpc/given_back.h"

#include "tests/support/catch.h"

namespace ddprun::runtime {
namespace {

TEST_CASE("a reference that was given back is known once") {
  GivenBack references;
  references.add({0, 7});
  references.add({0, 7});
  CHECK_FALSE(references.take({1, 7}));
  CHECK(references.take({0, 7}));
  CHECK_FALSE(references.take({0, 7}));
}

TEST_CASE("of too many references that were given back the first one is forgotten") {
  GivenBack references(2);
  for (int i = 0; i < 3; ++i) references.add({0, i});
  CHECK_FALSE(references.take({0, 0}));
  CHECK(references.take({0, 1}));
  CHECK(references.take({0, 2}));
}

}  // namespace
}  // namespace ddprun::runtime
