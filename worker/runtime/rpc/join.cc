#include "worker/runtime/rpc/join.h"

#include "rendezvous/base/env_contract.h"
#include "worker/runtime/comm/backend/gloo.h"
#include "worker/runtime/comm/join_world.h"
#include "worker/runtime/rpc/python_words.h"
#include "worker/runtime/throw_error.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace ddprun::runtime {
namespace {

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = torch::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<std::uint8_t>());
  return bytes;
}

/// all_gather_object, but for the objects that come, which nobody here needs.
void tell_all(c10d::Backend& group, const std::string& pickle, int world_size) {
  const auto gather = [&](const at::Tensor& mine, const at::Tensor& like) {
    std::vector<std::vector<at::Tensor>> all(1);
    for (int i = 0; i < world_size; ++i) all[0].push_back(torch::empty_like(like));
    std::vector<at::Tensor> input{mine};
    group.allgather(all, input)->wait();
    return torch::stack(all[0]);
  };
  at::Tensor bytes = bytes_of(pickle);
  const at::Tensor size = torch::tensor({bytes.numel()}, at::kLong);
  const std::int64_t longest = gather(size, size).max().item<std::int64_t>();
  bytes.resize_({longest});
  gather(bytes, bytes);
}

c10::intrusive_ptr<c10d::Store> store_of_python(const RpcSeat& seat, std::chrono::milliseconds timeout) {
  if (!seat.is_launched) return c10::make_intrusive<c10d::HashStore>();
  auto store = connect_store(seat.env, timeout);
  // Our prefix tells the generations of a torchrun job apart; Python has none.
  auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store.get());
  return prefix != nullptr ? prefix->getUnderlyingStore() : store;
}

}  // namespace

RpcSeat rpc_seat() {
  if (!is_launched(process_env)) return {};
  return {.env = value_or_throw(parse_worker_env(process_env)), .is_launched = true};
}

c10::intrusive_ptr<c10d::Store> rpc_store(const RpcSeat& seat, const c10::intrusive_ptr<c10d::Store>& known,
                                          std::chrono::milliseconds timeout) {
  auto store = known ? known->clone() : store_of_python(seat, timeout);
  store->setTimeout(timeout);
  return c10::make_intrusive<c10d::PrefixStore>("rpc_prefix_0", std::move(store));  // Python's first init_rpc
}

c10::intrusive_ptr<c10d::Backend> meet_over_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const RpcSeat& seat, const std::string& name,
                                                 std::chrono::milliseconds timeout) {
  const int world_size = seat.env.world_size.value();
  auto group = make_gloo_backend({.store = store,
                                  .rank = seat.env.rank.value(),
                                  .world_size = world_size,
                                  .one_host = seat.env.local_world_size.value() == world_size,
                                  .timeout = timeout,
                                  .name = ""});
  tell_all(*group, pickled_devices(name), world_size);
  return group;
}

}  // namespace ddprun::runtime
