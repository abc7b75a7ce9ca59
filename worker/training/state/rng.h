#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace ddprun::training {

/// Seeds the generators that models draw from: the CPU's, and the device's when it is a GPU.
void seed_generators(const at::Device& device, std::uint64_t seed);

/// The seed of rank `rank` when its generators start, or start anew after `step` steps: different for every
/// rank.
std::uint64_t rank_seed(std::uint64_t seed, int rank, std::int64_t step);

/// The generators' state as bytes.
std::string generator_state(const at::Device& device);

/// Takes back what `generator_state` gave. False when the bytes are of another kind of device.
bool set_generator_state(const at::Device& device, const std::string& state);

/// While it lives, the generators may be drawn from; then they go on where they were.
class KeptGenerators {
 public:
  explicit KeptGenerators(at::Device device = at::kCPU) : device_(device), state_(generator_state(device)) {}
  ~KeptGenerators() { set_generator_state(device_, state_); }
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;

 private:
  at::Device device_;
  std::string state_;
};

}  // namespace ddprun::training
