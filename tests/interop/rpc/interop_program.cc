// A rank in C++ beside one in Python (python_rank.py): OWN OTHER.
#include "tests/integration/rpc/rpc_functions.h"
#include <ddprun/dist_autograd.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/types.h>

#include <iostream>
#include <stdexcept>
#include <string>

namespace rpc = ddprun::rpc;

namespace {

void require(bool holds, const std::string& promise) {
  if (!holds) throw std::runtime_error("broken: " + promise);
  std::cout << "ok: " << promise << std::endl;
}

std::string what_is_thrown(const std::string& other) {
  try {
    rpc::rpc_sync<std::int64_t>(other, "snake::refuse", 3);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

int run(const std::string& own, const std::string& other) {
  const at::Tensor values = torch::arange(4, torch::kFloat);
  rpc::init_rpc(own);
  require(torch::equal(rpc::rpc_sync<at::Tensor>(other, "snake::scaled", values, 3.0), values * 3),
          "C++ calls a function of Python's");
  require(torch::equal(rpc::rpc_sync<at::Tensor>(other, "aten::mul", values, values), values * values),
          "C++ calls an operator there");
  const auto made = rpc::remote<at::Tensor>(other, "snake::scaled", values, 2.0);
  require(torch::equal(made.to_here(), values * 2) && made.owner() == other,
          "C++ refers to a value in Python");
  const std::string why = what_is_thrown(other);
  require(why.find("too small for a snake") != std::string::npos && why.find(other) != std::string::npos,
          "C++ reads what Python throws");
  {
    const at::Tensor weight = torch::ones({4}, torch::requires_grad());
    ddprun::dist_autograd::Context pass;
    pass.backward({(rpc::rpc_sync<at::Tensor>(other, "snake::scaled", weight, 3.0) * values).sum()});
    require(torch::equal(pass.gradient(weight), 3 * values), "a backward of C++ goes through Python");
  }
  rpc::shutdown();
  std::cout << "ok: C++ leaves" << std::endl;
  return 0;
}

}  // namespace

int main(int, char** argv) {
  return ddprun::record([&] { return run(argv[1], argv[2]); });
}
