#include "rendezvous/membership/successes.h"

namespace ddprun::membership {

void Successes::begin(Generation generation, int nodes) {
  generation_ = generation;
  nodes_ = nodes;
  ranks_.clear();
}

void Successes::add(const Success& success) {
  if (success.generation > generation_) begin(success.generation, success.nodes);
  if (are_of(success)) ranks_.insert(success.node_rank);
}

bool Successes::are_of(const Success& success) const {
  return success.generation == generation_ && success.nodes == nodes_ && success.node_rank.value() < nodes_;
}

}  // namespace ddprun::membership
