#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace ddprun::training {

/// The failure that the others of a job are consequences of.
struct FirstFailure {
  int rank = 0;
  std::string message;
};

/// Tells the other ranks that this one fails by itself; the first one that does is heard. Called before
/// anything is closed, so that a rank that loses this one can know why. Throws what the store throws.
void tell_failure(c10d::Store& store, int rank, const std::string& message);

/// What tell_failure() said, if it does within `patience`: a rank that was killed says nothing.
std::optional<FirstFailure> hear_failure(c10d::Store& store, std::chrono::milliseconds patience);

}  // namespace ddprun::training
