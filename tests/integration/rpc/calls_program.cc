// Two ranks call each other; rank 0 checks, and says "ok: …" of each promise.
#include "tests/integration/rpc/rpc_functions.h"
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/csrc/jit/api/module.h>
#include <torch/jit.h>
#include <torch/library.h>
#include <torch/script.h>
#include <torch/types.h>

#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace rpc = ddprun::rpc;
using namespace remote_calls;  // NOLINT: a program of the tests

namespace {

void require(bool holds, const std::string& promise) {
  if (!holds) throw std::runtime_error("broken: " + promise);
  std::cout << "ok: " << promise << std::endl;
}

template <class Error, class Body>
std::string thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void call_functions() {
  const at::Tensor left = torch::arange(6, torch::kFloat).reshape({2, 3});
  require(torch::equal(rpc::rpc_sync("beta", kAdd, left, left), left + left), "a C++ function by its stub");
  require(torch::equal(rpc::rpc_sync<at::Tensor>("beta", "test::add", left, left), left + left),
          "a C++ function by its name");
  require(torch::equal(rpc::rpc_sync<at::Tensor>("beta", "aten::add", left, 1), left + 1),
          "an operator of ATen, with its defaults");
  require(torch::equal(rpc::rpc_sync<at::Tensor>("beta", "script::scaled", left, 3), left * 3),
          "a TorchScript function");
  require(torch::equal(rpc::rpc_sync<at::Tensor>("beta", "test_library::halve", left), left / 2),
          "an operator of TORCH_LIBRARY");
  require(rpc::remote<at::Tensor>("beta", "test_library::halve", left).to_here().equal(left / 2),
          "a reference to what such an operator gives");
  rpc::rpc_sync("beta", kNothing);
  const at::Tensor sparse = torch::eye(3).to_sparse();
  require(rpc::rpc_sync<at::Tensor>("beta", "aten::add", sparse, sparse).to_dense().equal(2 * torch::eye(3)),
          "sparse tensors");
  require(rpc::rpc_sync("beta", kDescribe, "x", {1, 2}, 0.5, true) == "x 1+2 0.5 true",
          "values of many types");
  require(rpc::rpc_sync("alpha", kRelay, "beta", 5) == -5, "a call to oneself, which calls another");
  require(
      rpc::rpc_async("beta", kRelay, "alpha", 5).then([](std::int64_t value) { return value * 2; }).wait() ==
          -10,
      "a future goes on where it is done");
  require(rpc::self().name == "alpha" && rpc::workers().at(1).name == "beta",
          "workers have names and numbers");
}

void answer_later() {
  const auto later = rpc::rpc_async("beta", kLater);
  require(!later.done(), "a function that answers later");
  rpc::rpc_sync("beta", kRelease);
  require(later.wait() == 42, "it answers when its future is done");
}

void use_references() {
  const at::Tensor value = torch::arange(4, torch::kFloat);
  const auto made = rpc::remote("beta", kAdd, value, value);
  require(made.owner() == "beta" && !made.is_owner(), "a reference says who owns it");
  require(torch::equal(made.to_here(), value + value), "to_here");
  require(made.rpc_sync(kSum) == 12, "a call through a reference finds the value on its owner");
  require(torch::equal(rpc::rpc_sync("alpha", kCopy, made), value + value), "a reference as an argument");
  const auto own = rpc::RRef<at::Tensor>::of(value);
  require(torch::equal(rpc::rpc_sync("beta", kCopy, own), value), "a reference to a value of one's own");
  const auto of_reference = rpc::rpc_sync("beta", kKeep, value);
  require(of_reference.owner() == "beta" && torch::equal(of_reference.to_here(), value),
          "a reference as a result");
  require(
      rpc::rpc_sync<at::Tensor>("beta", "test::copy", rpc::remote("beta", "test::add", value, value).raw())
          .equal(value + value),
      "a reference whose type the caller does not name, as an argument of its owner");
  require(rpc::rpc_sync("alpha", kSecond, rpc::remote("beta", kPair, value, 7)) == 7,
          "a reference to a tuple");
  require(rpc::rpc_sync("beta", kSumOfTerms, {{made, 1}, {std::nullopt, 2}}) == 15,
          "references within optionals, tuples and lists");
  const auto anything = rpc::remote("beta", kAnything);
  require(anything.to_here().isTensor() && anything.rpc_sync(kSizeOfAnything) == 3,
          "a reference to what its function does not name");
  require(rpc::remote<std::string>("beta", "of_one_rank::pick", "x").rpc_sync(kText) == "x",
          "a reference to the result of an overload that its owner alone has");
  require(rpc::rpc_sync<std::string>("beta", "test::text",
                                     rpc::remote("beta", "test_library::pick", "x").raw()) == "x",
          "a reference to the result of an overload whose type the caller does not name");
  require(rpc::rpc_sync<at::Tensor>("beta", "test::copy",
                                    rpc::remote<c10::IValue>("beta", "script::scaled", value, 2).raw())
              .equal(value * 2),
          "a reference to what a TorchScript function gives, whose type the caller does not name");
  const auto thrown_on = rpc::rpc_async("beta", kZeros, 3).then([](const at::Tensor&) { throw 7; });
  require(thrown_by<std::runtime_error>([&] { thrown_on.wait(); }) ==
              "rpc: what then() called threw an object that is no std::exception",
          "then() of what throws no exception");
  const auto at_home = rpc::remote("alpha", kZeros, 3);
  require(at_home.is_owner() && at_home.to_here().numel() == 3, "remote to oneself");
  const auto broken = rpc::remote("beta", kThrow, "out_of_range");
  require(thrown_by<std::out_of_range>([&] { broken.to_here(); }) == "worker 'beta': row 7 of 3",
          "to_here of what failed");
  require(thrown_by<ddprun::Exception>([&] { std::ignore = made.local_value(); }) ==
              "rpc: the value of this reference is worker 'beta''s; take a copy with to_here, or call a "
              "function there",
          "local_value elsewhere");
}

void get_exceptions() {
  require(thrown_by<std::out_of_range>([] { rpc::rpc_sync("beta", kThrow, "out_of_range"); }) ==
              "worker 'beta': row 7 of 3",
          "std::out_of_range");
  require(thrown_by<ddprun::Exception>([] { rpc::rpc_sync("beta", kThrow, "config"); }) ==
              "worker 'beta': no such layer",
          "Exception");
  require(thrown_by<c10::IndexError>([] { rpc::rpc_sync("beta", kThrow, "index"); }) ==
              "worker 'beta': index 9 is too large",
          "c10::IndexError");
  const std::string other = thrown_by<rpc::RemoteError>([] { rpc::rpc_sync("beta", kThrow, "own"); });
  require(other.ends_with("OfThisProgram: a class of this program"), "a class that the caller does not know");
  require(thrown_by<rpc::RemoteError>([] { rpc::rpc_sync("beta", kThrow, "seven"); }) ==
              "worker 'beta': an object: it is no std::exception",
          "an int");
}

void serve_scripts(int rank) {
  rpc::serve_script(torch::jit::compile("def scaled(x, factor: int):\n    return x * factor\n"));
  // of_one_rank::pick is something else, which the other rank alone has.
  if (rank == 0) rpc::serve_script(torch::jit::compile("def pick(x: int) -> int:\n    return x\n"));
}

int run() {
  ddprun::Context context = ddprun::init();
  serve_scripts(context.rank());
  if (context.rank() == 1) load_library_of_one_rank();
  rpc::init_rpc(context.rank() == 0 ? "alpha" : "beta", context);
  // They outlive the world that they were made in.
  std::vector<rpc::RRef<at::Tensor>> kept;
  kept.push_back(rpc::remote(context.rank() == 0 ? "beta" : "alpha", kZeros, 3));
  kept.push_back(rpc::RRef<at::Tensor>::of(torch::zeros({3})));
  if (context.rank() == 0) {
    call_functions();
    answer_later();
    use_references();
    get_exceptions();
  }
  rpc::shutdown();
  context.shutdown();
  std::cout << "ok: rank " << context.rank() << " leaves" << std::endl;
  return 0;
}

}  // namespace

int main() { return ddprun::record(run); }
