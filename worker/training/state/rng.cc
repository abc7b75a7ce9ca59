#include "worker/training/state/rng.h"

#include <torch/types.h>

#include <cstring>
#include <mutex>
#include <vector>

namespace ddprun::training {
namespace {

std::vector<at::Generator> generators(const at::Device& device) {
  std::vector<at::Generator> all{at::globalContext().defaultGenerator(at::kCPU)};
  if (device.is_cuda()) all.push_back(at::globalContext().defaultGenerator(device));
  return all;
}

}  // namespace

void seed_generators(const at::Device& device, std::uint64_t seed) {
  for (at::Generator generator : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

std::uint64_t rank_seed(std::uint64_t seed, int rank, std::int64_t step) {
  // Sebastiano Vigna's splitmix64: neighbouring inputs give unrelated outputs.
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(rank) + 1) +
                    0xd1b54a32d192ed03ULL * static_cast<std::uint64_t>(step);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::string generator_state(const at::Device& device) {
  std::string bytes;
  for (at::Generator generator : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    const at::Tensor state = generator.get_state();
    bytes.append(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
  }
  return bytes;
}

bool set_generator_state(const at::Device& device, const std::string& state) {
  std::vector<at::Generator> all = generators(device);
  std::vector<at::Tensor> tensors;
  std::size_t total = 0;
  for (at::Generator& generator : all) {
    const std::lock_guard lock(generator.mutex());
    tensors.push_back(generator.get_state());
    total += tensors.back().nbytes();
  }
  if (total != state.size()) return false;
  const char* next = state.data();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::memcpy(tensors[i].mutable_data_ptr(), next, tensors[i].nbytes());
    next += tensors[i].nbytes();
    const std::lock_guard lock(all[i].mutex());
    all[i].set_state(tensors[i]);
  }
  return true;
}

}  // namespace ddprun::training
