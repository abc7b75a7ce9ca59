// Calls from rank 0 to rank 1 of a function that does nothing. Reads lines "BYTES FLIGHT CALLS" from the file (or pipe)
// COMMANDS and answers each with calls a second: with a tensor of so many bytes (0: without one), so many at once.
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <deque>
#include <fstream>
#include <iostream>
#include <string>

namespace rpc = ddprun::rpc;

namespace {

const rpc::Function<void()> kNothing("bench::nothing", [] {});
const rpc::Function<void(at::Tensor)> kTake("bench::take", [](const at::Tensor&) {});

rpc::Future<void> call(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? rpc::rpc_async("server", kNothing) : rpc::rpc_async("server", kTake, tensor);
}

void make_calls(const at::Tensor& tensor, std::size_t flight, int calls) {
  std::deque<rpc::Future<void>> open;
  for (int i = 0; i < calls; ++i) {
    if (open.size() == flight) {
      open.front().wait();
      open.pop_front();
    }
    open.push_back(call(tensor));
  }
  for (const auto& future : open) future.wait();
}

double calls_a_second(const at::Tensor& tensor, std::size_t flight, int calls) {
  make_calls(tensor, flight, static_cast<int>(flight));
  const auto begin = std::chrono::steady_clock::now();
  make_calls(tensor, flight, calls);
  return calls / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const char* path) {
  torch::set_num_threads(1);
  ddprun::Context context = ddprun::init();
  const bool is_server = context.rank() == 1;
  rpc::init_rpc(is_server ? "server" : "client", context);
  if (!is_server) {
    std::ifstream commands(path);
    std::int64_t bytes = 0;
    std::size_t flight = 0;
    int calls = 0;
    while (commands >> bytes >> flight >> calls)
      std::cout << calls_a_second(torch::zeros({bytes}, torch::kByte), flight, calls) << std::endl;
  }
  rpc::shutdown();
  context.shutdown();
  return 0;
}

}  // namespace

int main(int, char** argv) {
  return ddprun::record([&] { return run(argv[1]); });
}
