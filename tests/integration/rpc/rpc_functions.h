#pragma once

#include <ddprun/rpc.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

/// What the programs of the tests call on each other.
namespace remote_calls {

at::Tensor add(at::Tensor left, at::Tensor right);

extern const ddprun::rpc::Function<at::Tensor(at::Tensor, at::Tensor)> kAdd;
extern const ddprun::rpc::Function<void()> kNothing;
extern const ddprun::rpc::Function<std::string(std::string, std::vector<std::int64_t>, double, bool)>
    kDescribe;
extern const ddprun::rpc::Function<void(std::string)> kThrow;
extern const ddprun::rpc::Function<std::int64_t(std::string, std::int64_t)> kRelay;
/// Answers when kRelease is called.
extern const ddprun::rpc::Function<ddprun::rpc::Future<std::int64_t>()> kLater;
extern const ddprun::rpc::Function<void()> kRelease;
/// A value that only its owner has, and its methods.
extern const ddprun::rpc::Function<ddprun::rpc::RRef<at::Tensor>(at::Tensor)> kKeep;
extern const ddprun::rpc::Function<double(ddprun::rpc::RRef<at::Tensor>)> kSum;
/// A copy, wherever this is called, of what the reference stands for.
extern const ddprun::rpc::Function<at::Tensor(ddprun::rpc::RRef<at::Tensor>)> kCopy;
extern const ddprun::rpc::Function<at::Tensor(std::int64_t)> kZeros;
/// kAdd of a value and itself, on another worker.
extern const ddprun::rpc::Function<at::Tensor(std::string, at::Tensor)> kAddOn;
extern const ddprun::rpc::Function<void()> kDie;

}  // namespace remote_calls
