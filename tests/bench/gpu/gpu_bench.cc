// One rank of the GPU benchmark: `gpu_bench DEVICE COMMANDS` does what the lines say that rank 0 reads from
// the file (or pipe) COMMANDS, "WHAT SIZE TIMES [HOW]", until it ends. Rank 0 answers each with
// "MILLISECONDS LOSS", of one of TIMES steps, or with "left out: WHY". DEVICE: cuda or cpu.
//
//   mnist_cnn 512 100 bf16+graph   steps of a model with batches of 512: training.h
//   all_reduce 1024 100 group      sums 1024 bytes through ddprun's process group; `bare`: with NCCL alone
//
// What a line names is made when it is first named and then kept, so that programs can take turns.
#include "tests/bench/gpu/on_card.h"
#include "tests/bench/gpu/training.h"
#include "tests/bench/turns.h"
#include <ddprun/collectives.h>
#include <ddprun/record.h>

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

namespace ddprun::bench {
namespace {

std::set<std::string> words_of(const std::string& how) {
  std::set<std::string> words;
  std::istringstream text(how);
  for (std::string word; std::getline(text, word, '+');) words.insert(word);
  return words;
}

Training make_all_reduce(const Context& context, std::int64_t bytes, const std::string& how) {
  const at::Tensor tensor = at::zeros({bytes / 4}, at::TensorOptions(context.device()).dtype(at::kFloat));
  const auto loss = [tensor] { return tensor.sum().item<double>(); };
  if (how == "group") {
    return {.step = [group = Group(context.process_group()), tensor] { all_reduce(group, tensor); },
            .loss = loss};
  }
  if (!context.device().is_cuda()) throw LeftOut("NCCL needs a GPU");
  return {.step = make_bare_all_reduce(context, tensor), .loss = loss};
}

Training make(const Context& context, const Turn& turn) {
  if (turn.what == "all_reduce") return make_all_reduce(context, turn.size, turn.how);
  return make_training(context, turn.what, turn.size, words_of(turn.how));
}

void wait_for(const at::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

double milliseconds_each(const at::Device& device, const Step& step, int times) {
  wait_for(device);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) step();
  wait_for(device);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / times;
}

/// Rank 0's answer to a line.
std::string answer(const Context& context, std::map<std::string, Training>& prepared, const Turn& turn) {
  auto found = prepared.find(turn.name());
  if (found == prepared.end()) {
    try {
      found = prepared.emplace(turn.name(), make(context, turn)).first;
    } catch (const LeftOut& why) {
      return std::string("left out: ") + why.what();
    }
    milliseconds_each(context.device(), found->second.step, std::max(2, turn.times));  // caches are warm
  }
  const double milliseconds = milliseconds_each(context.device(), found->second.step, turn.times);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%.6f %.9g", milliseconds, found->second.loss());
  return text.data();
}

int run(const std::string& device, const char* commands_path) {
  torch::set_num_threads(1);
  // The commands are a tensor on the CPU.
  const Context context = init({.backend = device == "cuda" ? "cpu:gloo,cuda:nccl" : "auto",
                                .device = device,
                                .log = [](const std::string&) {}});
  at::globalContext().setBenchmarkCuDNN(true);
  std::map<std::string, Training> prepared;
  take_turns(context, commands_path, [&](const Turn& turn) { return answer(context, prepared, turn); });
  prepared.clear();
  Context(context).shutdown();
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gpu_bench cuda|cpu COMMANDS\n");
    return 64;
  }
  return ddprun::record([&] { return ddprun::bench::run(argv[1], argv[2]); });
}
