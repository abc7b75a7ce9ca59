#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::training {

/// The random generators of each rank that a process trains as. libtorch has one set of them: that of the rank whose
/// turn it is; the states of the others are kept here. Between two steps it is that of turn 0.
class Generators {
 public:
  /// Those of turn 0 are as they are; seed() gives all of them their own.
  Generators(at::Device device, std::size_t count) : device_(device), aside_(count) {}

  /// Each begins anew, from its seed.
  void seed(const std::function<std::uint64_t(std::size_t turn)>& seed_of);
  void turn_to(std::size_t turn);

  /// By turn.
  [[nodiscard]] std::vector<std::string> states() const;
  /// Takes back what states() gave. False when some state is of another kind of device; then they want to be seeded.
  [[nodiscard]] bool set_states(const std::vector<std::string>& states);

 private:
  at::Device device_;
  std::vector<std::string> aside_;  ///< of the present one: stale
  std::size_t turn_ = 0;
};

}  // namespace ddprun::training
