#include "rendezvous/membership/successes.h"

#include <utility>

namespace ddprun::membership {

void Successes::begin(Generation generation, int nodes, std::string coordinator) {
  generation_ = generation;
  nodes_ = nodes;
  coordinator_ = std::move(coordinator);
  ranks_.clear();
}

void Successes::add(const Success& success) {
  if (success.generation > generation_) begin(success.generation, success.nodes, success.coordinator);
  if (are_of(success)) ranks_.insert(success.node_rank);
}

bool Successes::are_of(const Success& success) const {
  return success.generation == generation_ && success.nodes == nodes_ &&
         success.coordinator == coordinator_ && success.node_rank.value() < nodes_;
}

}  // namespace ddprun::membership
