#include "worker/training/resume/state_shards.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>

#include <torch/types.h>

#include <cstddef>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

PtDict state() {
  PtDict model{.ordered = true};
  model.set("weight", at::arange(100));
  model.set("bias", at::arange(10));
  PtDict optimizer;
  optimizer.set(std::int64_t{0},
                PtList{{at::full({100}, 2.0), PtValue(), PtTuple{{at::full({10}, 3.0), 0.5}}}});
  PtDict whole;
  whole.set("model", model);
  whole.set("optimizer", optimizer);
  whole.set("step", std::int64_t{7});
  whole.set("nothing", PtValue());
  return whole;
}

std::size_t bytes_of(const PtValue& value) {
  if (value.is_tensor()) return value.as_tensor().nbytes();
  std::size_t bytes = 0;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().entries) bytes += bytes_of(item);
  } else if (value.kind() == "a list" || value.kind() == "a tuple") {
    for (const PtValue& item : value.as_sequence()) bytes += bytes_of(item);
  }
  return bytes;
}

}  // namespace

TEST_CASE("ranks keep equal shares of a state, and have it whole together") {
  for (const int ranks : {1, 2, 3, 9}) {
    std::vector<PtValue> shards;
    std::size_t bytes = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      shards.push_back(shard_of(state(), rank, ranks));
      bytes += bytes_of(shards.back());
      CHECK(bytes_of(shards.back()) <= (ranks == 1 ? 1320 : 880));
    }
    CHECK(bytes == bytes_of(state()));
    const PtDict whole = join_shards(shards).as_dict();
    CHECK(whole.at("model").as_dict().ordered);
    CHECK(at::equal(whole.at("model").as_dict().at("weight").as_tensor(), at::arange(100)));
    CHECK(at::equal(whole.at("model").as_dict().at("bias").as_tensor(), at::arange(10)));
    const std::vector<PtValue>& list = whole.at("optimizer").as_dict().find(std::int64_t{0})->as_sequence();
    CHECK(at::equal(list[0].as_tensor(), at::full({100}, 2.0)));
    CHECK(list[1].is_none());
    CHECK(at::equal(list[2].as_sequence()[0].as_tensor(), at::full({10}, 3.0)));
    CHECK(list[2].as_sequence()[1].as_double() == 0.5);
    CHECK(whole.at("step").as_int() == 7);
    CHECK(whole.at("nothing").is_none());
  }
}

TEST_CASE("shares of different states are refused") {
  PtDict other;
  other.set("model", PtDict());
  CHECK_THROWS_WITH(join_shards({state(), other}), "the ranks kept states of different forms");
}
