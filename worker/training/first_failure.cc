#include "worker/training/first_failure.h"

#include "worker/runtime/comm/roll_call/await_keys.h"
#include "worker/runtime/comm/roll_call/store_text.h"

namespace ddprun::training {
namespace {

constexpr const char* kFirstFailureKey = "ddprun/first_failure";

}  // namespace

void tell_failure(c10d::Store& store, int rank, const std::string& message) {
  const std::string text = std::to_string(rank) + " " + message;
  store.compareSet(kFirstFailureKey, {}, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::optional<FirstFailure> hear_failure(c10d::Store& store, std::chrono::milliseconds patience) {
  if (!runtime::await_keys(store, {kFirstFailureKey}, patience)) return std::nullopt;
  const std::string text = runtime::take_text(store, kFirstFailureKey);
  return FirstFailure{std::stoi(text), text.substr(text.find(' ') + 1)};
}

}  // namespace ddprun::training
