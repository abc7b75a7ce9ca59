#include "worker/runtime/rpc/functions.h"

#include "tests/support/catch.h"
#include <ddprun/rpc.h>

#include <torch/custom_class.h>

#include <optional>

namespace ddprun::runtime {
namespace {

struct OfNobody : torch::CustomClassHolder {};

TEST_CASE("a function may give a class that is registered later") {
  using Give = rpc::Function<c10::intrusive_ptr<OfNobody>()>;
  CHECK_NOTHROW(Give("unit::give", [] { return c10::make_intrusive<OfNobody>(); }));
}

TEST_CASE("a function may give what may hold a number of any size") {
  using Give = rpc::Function<std::optional<int>()>;
  CHECK_NOTHROW(Give("unit::give_number", [] { return std::optional(5); }));
}

}  // namespace
}  // namespace ddprun::runtime
