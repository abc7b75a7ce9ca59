#include "tests/support/catch.h"
#include "tests/unit/data_parallel/nets.h"
#include <ddprun/data_parallel.h>

#include <torch/nn/cloneable.h>

namespace ddprun {
namespace {

using testing::batch;
using testing::calling;
using testing::cpus;
using torch::Tensor;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& error) {
    CHECK(error.code() == ErrorCode::kConfig);
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("devices that cannot be are refused") {
  CHECK(refusal([] { DataParallel(testing::mlp(), {}); }) ==
        "DataParallel: no devices are given; give at least one");
  CHECK(refusal([] {
          DataParallel(testing::mlp(), {at::Device(at::kMeta), at::kCPU});
        }) ==
        "DataParallel: \"0.weight\" is on cpu, the first device is meta; move the module there first: "
        "model->to(device)");
}

TEST_CASE("inputs that cannot be cut are refused") {
  DataParallel parallel(calling([](const Tensor&, const Tensor& a, const Tensor&) { return a; }), cpus(2));
  CHECK(refusal([&] { parallel(batch(4), batch(5)); }) ==
        "DataParallel: a tensor of shape [5, 6] has length 5 along dimension 0, another one has 4; all "
        "tensors of "
        "a batch must be equally long");
  DataParallel along_two(calling([](const Tensor&, const Tensor& a) { return a; }), cpus(2), {.dim = 2});
  CHECK(
      refusal([&] { along_two(batch(4)); }) ==
      "DataParallel: a tensor of shape [4, 6] has no dimension 2 to be cut along; choose option dim, or give "
      "what belongs to every device without dimensions");
}

TEST_CASE("replicas that are unlike the module are refused by the first difference") {
  testing::Plain plain;
  const std::string no_clone = refusal([&] { DataParallel(plain, cpus(2))(batch(2)); });
  CHECK(no_clone.find(
            "DataParallel: no replica of ddprun::testing::PlainImpl can be made (clone() has not been "
            "implemented") == 0);
  CHECK(
      no_clone.find("give option make_replica, a function that builds the same module, or derive the module "
                    "from torch::nn::Cloneable and make its parts in reset()") != std::string::npos);

  const auto difference = [](const std::function<testing::Plain()>& make) {
    return refusal([&] { DataParallel(testing::Plain(), cpus(2), {.make_replica = make})(batch(2)); });
  };
  const std::string advice = "; give option make_replica, a function that builds the same module";
  CHECK(
      difference([] {
        testing::Plain other;
        other->register_parameter("more", torch::ones({1}));
        return other;
      }) ==
      "DataParallel: a replica is unlike the module: where the module has \"layer.weight\" it has \"more\"" +
          advice);
  CHECK(difference([] {
          testing::Plain other;
          other->to(torch::kFloat);
          return other;
        }) ==
        "DataParallel: a replica is unlike the module: \"layer.weight\" is Float [3, 6], in the module it is "
        "Double [3, 6]" +
            advice);
}

TEST_CASE("outputs that differ in form are refused") {
  DataParallel parallel(calling([](const Tensor&, const Tensor& input) {
                          return std::vector<Tensor>(static_cast<std::size_t>(input.size(0)), input);
                        }),
                        cpus(2));
  CHECK(refusal([&] { parallel(batch(3)); }) ==
        "DataParallel: replica 1 gave 1 tensors, replica 0 gave 2; outputs that differ in form cannot be put "
        "together");
}

TEST_CASE("what a replica throws comes out with the replica and its device") {
  const auto failing = [](auto error) {
    return DataParallel(calling([error](const Tensor& weight, const Tensor& input) {
                          if (input.size(0) == 1) throw error;
                          return weight * input;
                        }),
                        cpus(2));
  };
  auto standard = failing(std::out_of_range("seven"));
  try {
    standard(batch(3));
    FAIL("nothing was thrown");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "DataParallel: replica 1 of 2, on cpu, failed: seven");
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::out_of_range);
  }
  auto ours = failing(Exception(ErrorCode::kCorrupt, "this batch is rotten"));
  try {
    ours(batch(3));
    FAIL("nothing was thrown");
  } catch (const Exception& error) {
    CHECK(error.code() == ErrorCode::kCorrupt);
    CHECK(std::string(error.what()) == "DataParallel: replica 1 of 2, on cpu, failed: this batch is rotten");
  }
  CHECK(ours(batch(4)).size(0) == 4);  // and it goes on
}

TEST_CASE("libtorch's own errors come out without their stack") {
  DataParallel parallel(testing::mlp(), cpus(2));
  const std::string ours = "DataParallel: replica 0 of 2, on cpu, failed: ";
  const std::string theirs = "mat1 and mat2 shapes cannot be multiplied (1x7 and 6x8)";
  CHECK_THROWS_WITH(parallel(torch::ones({2, 7}, torch::kDouble)),
                    Catch::Equals(ours + theirs) || Catch::Equals(ours + "addmm: " + theirs));  // 2.11, 2.15
}

}  // namespace
}  // namespace ddprun
