#include "worker/training/state/generators.h"

#include "worker/training/state/rng.h"

namespace ddprun::training {

void Generators::seed(const std::function<std::uint64_t(std::size_t turn)>& seed_of) {
  for (std::size_t turn = aside_.size(); turn-- > 0;) {
    seed_generators(device_, seed_of(turn));
    if (turn > 0) aside_[turn] = generator_state(device_);
  }
  turn_ = 0;
}

void Generators::turn_to(std::size_t turn) {
  if (turn == turn_) return;
  aside_[turn_] = generator_state(device_);
  set_generator_state(device_, aside_[turn]);
  turn_ = turn;
}

std::vector<std::string> Generators::states() const {
  std::vector<std::string> states = aside_;
  states[turn_] = generator_state(device_);
  return states;
}

bool Generators::set_states(const std::vector<std::string>& states) {
  for (std::size_t turn = states.size(); turn-- > 0;) {
    if (!set_generator_state(device_, states[turn])) return false;
  }
  aside_ = states;
  turn_ = 0;
  return true;
}

}  // namespace ddprun::training
