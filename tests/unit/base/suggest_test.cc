#include "rendezvous/base/suggest.h"

#include "tests/support/catch.h"

#include <vector>

using namespace ddprun;

TEST_CASE("distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("epochs", "epochs") == 0);
  CHECK(edit_distance("epoch", "epochs") == 1);
  CHECK(edit_distance("epohcs", "epochs") == 1);
  CHECK(edit_distance("Epochs", "epochs") == 0);
  CHECK(edit_distance("", "seed") == 4);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is suggested when it is near, and no other") {
  const std::vector<std::string> names{"seed", "epochs", "batch_size", "learning_rate"};
  CHECK(nearest_name("learning_rat", names) == "learning_rate");
  CHECK(nearest_name("batchsize", names) == "batch_size");
  CHECK(nearest_name("sed", names) == "seed");
  CHECK_FALSE(nearest_name("momentum", names));
  CHECK_FALSE(nearest_name("x", names));
}

TEST_CASE("the suggestion ends the refusing sentence") {
  const std::vector<std::string> names{"gloo", "nccl"};
  CHECK(did_you_mean("nclc", names) == "; did you mean \"nccl\"?");
  CHECK(did_you_mean("infiniband", names).empty());
}
