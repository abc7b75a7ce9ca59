#pragma once

#include "rendezvous/base/result.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// Where and by whom a roll is called.
struct RollCall {
  c10d::Store& store;
  std::string prefix;  ///< of its keys: nobody calls another roll under the same
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
};

/// Makes one answer of what the ranks said, in the order of ranks.
using Judge = std::function<Result<std::string>(const std::vector<std::string>& said)>;

/// Every rank says a sentence through the store, rank 0 judges, and all get the same answer or error: needs
/// no backend. Collective over the ranks of the store: each says its own, waits by await_keys(), so that others may use
/// the store's client meanwhile, and takes the answer; rank 0 takes what all have said in one question instead.
/// Errors   the judge's; kTimeout, the same on every rank and naming who did not come, when some rank has
///          waited for `timeout`: also for a rank that comes later. What the store throws.
Result<std::string> call_roll(const RollCall& call, const std::string& mine, const Judge& judge);

/// In place of call_roll() by a rank that cannot go on: the others get `why`, unless they have an answer already. Waits
/// for nobody, and throws nothing: where the store is gone as well, nobody hears of it.
void refuse_roll(const RollCall& call, const Error& why) noexcept;

}  // namespace ddprun::runtime
