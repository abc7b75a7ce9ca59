#include "worker/training/job_state.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::training;

TEST_CASE("a job's state survives its checkpoint") {
  JobState state;
  state.position.epoch = 2;
  state.position.step = 141;
  state.position.samples_seen = 640;
  state.position.epoch_loss = {12.5, 640};
  state.position.evaluation = Evaluation{{30.25, 1000}, 970};
  state.model_type = "mlp";
  state.optimizer_type = "adam";
  state.config = "{}";
  state.generator_states = {"abc", std::string("\0x", 2)};
  const JobState back = read_job_state(make_checkpoint(state, {}, {}));
  CHECK(back.position.epoch == 2);
  CHECK(back.position.step == 141);
  CHECK(back.position.samples_seen == 640);
  CHECK(back.position.epoch_loss.mean() == 12.5 / 640);
  CHECK(back.position.evaluation->accuracy() == 0.97);
  CHECK(back.model_type == "mlp");
  CHECK(back.optimizer_type == "adam");
  CHECK(back.generator_states == state.generator_states);
}

TEST_CASE("a file of someone else is not taken for a checkpoint") {
  PtDict other;
  other.set("model", PtDict());
  CHECK_THROWS_WITH(read_job_state(other), "it has no \"ddprun\" entry, so ddprun did not write it");
}

// A tensor of a million bytes over a storage of one, as expand() makes it.
TEST_CASE("a generator's state that is not a row of bytes is refused") {
  JobState state;
  state.generator_states = {"a"};
  PtDict checkpoint = make_checkpoint(state, {}, {});
  for (auto& [key, value] : checkpoint.entries) {
    if (key.as_string() == "rng") value = PtList{{PtValue(at::zeros({1}, at::kByte).expand({1000000}))}};
  }
  CHECK_THROWS_WITH(read_job_state(checkpoint),
                    "its entry \"rng\" holds Byte [1000000] with strides [0]; expected a row of bytes");
}
