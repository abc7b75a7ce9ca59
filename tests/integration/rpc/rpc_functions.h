#pragma once

#include <ddprun/rpc.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

/// What the programs of the tests call on each other.
namespace remote_calls {

at::Tensor add(at::Tensor left, at::Tensor right);

void release();             ///< what kRelease does
void wait_until_blocked();  ///< for kBlock

/// of_one_rank::pick, whose overloads give back a number or a text.
void load_library_of_one_rank();

extern const ddprun::rpc::Function<at::Tensor(at::Tensor, at::Tensor)> kAdd;
extern const ddprun::rpc::Function<void()> kNothing;
extern const ddprun::rpc::Function<std::string(std::string, std::vector<std::int64_t>, double, bool)>
    kDescribe;
extern const ddprun::rpc::Function<void(std::string)> kThrow;
extern const ddprun::rpc::Function<std::int64_t(std::string, std::int64_t)> kRelay;
/// Answers when kRelease is called.
extern const ddprun::rpc::Function<ddprun::rpc::Future<std::int64_t>()> kLater;
extern const ddprun::rpc::Function<void()> kRelease;
extern const ddprun::rpc::Function<std::int64_t()> kBlock;  ///< keeps a thread until then
extern const ddprun::rpc::Function<void(ddprun::rpc::RRef<at::Tensor>)> kTouch;
extern const ddprun::rpc::Function<std::int64_t()> kEnded;  ///< how many of these two have ended
extern const ddprun::rpc::Function<std::int64_t()> kOwned;  ///< how many references' values are there
extern const ddprun::rpc::Function<c10::IValue()> kAnything;
extern const ddprun::rpc::Function<std::int64_t(ddprun::rpc::RRef<c10::IValue>)> kSizeOfAnything;
/// A value that only its owner has, and its methods.
extern const ddprun::rpc::Function<ddprun::rpc::RRef<at::Tensor>(at::Tensor)> kKeep;
extern const ddprun::rpc::Function<double(ddprun::rpc::RRef<at::Tensor>)> kSum;
/// A copy, wherever this is called, of what the reference stands for.
extern const ddprun::rpc::Function<at::Tensor(ddprun::rpc::RRef<at::Tensor>)> kCopy;
extern const ddprun::rpc::Function<at::Tensor(std::int64_t)> kZeros;
/// kAdd of a value and itself, on another worker.
extern const ddprun::rpc::Function<at::Tensor(std::string, at::Tensor)> kAddOn;
/// A reference to zeros, and the zeros.
extern const ddprun::rpc::Function<c10::IValue(std::int64_t)> kKeepAndGive;
using Pair = std::tuple<at::Tensor, std::int64_t>;
extern const ddprun::rpc::Function<Pair(at::Tensor, std::int64_t)> kPair;
extern const ddprun::rpc::Function<std::int64_t(ddprun::rpc::RRef<Pair>)> kSecond;
extern const ddprun::rpc::Function<std::string(ddprun::rpc::RRef<std::string>)> kText;
/// The sum of those that are there, and of the numbers.
using Terms = std::vector<std::tuple<std::optional<ddprun::rpc::RRef<at::Tensor>>, int>>;
extern const ddprun::rpc::Function<float(Terms)> kSumOfTerms;
extern const ddprun::rpc::Function<void()> kLeave;  ///< shuts down where it is called
extern const ddprun::rpc::Function<void()> kDie;
/// Uses a static for so many milliseconds, and says what became of it.
extern const ddprun::rpc::Function<void(std::int64_t)> kUseStatic;

}  // namespace remote_calls
