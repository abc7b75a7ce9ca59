#include "worker/runtime/comm/reduce_op.h"
#include <ddprun/collectives.h>

#include <torch/types.h>

#include <algorithm>
#include <cstring>

namespace ddprun {
namespace {

using runtime::check_rank;
using Number = std::uint64_t;

at::Tensor numbers_tensor(const std::vector<std::int64_t>& numbers, const at::Device& device) {
  return torch::tensor(numbers, torch::kInt64).to(device);
}

/// The bytes, and zeros up to `length`.
at::Tensor bytes_tensor(const std::string& bytes, std::size_t length, const at::Device& device) {
  const at::Tensor tensor = torch::zeros({static_cast<std::int64_t>(length)}, torch::kUInt8);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor.to(device);
}

at::Tensor empty_bytes(std::int64_t length, const at::Device& device) {
  return torch::empty({length}, at::TensorOptions(torch::kUInt8).device(device));
}

/// The first `length` bytes.
std::string to_bytes(const at::Tensor& tensor, std::int64_t length) {
  if (length == 0) return {};
  const at::Tensor local = tensor.cpu().contiguous();
  return {static_cast<const char*>(local.const_data_ptr()), static_cast<std::size_t>(length)};
}

/// Everybody's number of bytes.
std::vector<std::int64_t> all_sizes(const Group& group, const std::string& bytes, const at::Device& device) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& size :
       all_gather(group, numbers_tensor({static_cast<std::int64_t>(bytes.size())}, device)))
    sizes.push_back(size.item<std::int64_t>());
  return sizes;
}

std::vector<std::string> cut_each(const std::vector<at::Tensor>& tensors,
                                  const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < tensors.size(); ++rank)
    all.push_back(to_bytes(tensors[rank], sizes[rank]));
  return all;
}

void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

Number number_at(const std::string& bytes, std::size_t offset) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

}  // namespace

std::string broadcast_bytes(const Group& group, const std::string& bytes, int from_rank) {
  check_rank(group, from_rank, "broadcast_bytes");
  const at::Device device = collective_device(group);
  const at::Tensor size = numbers_tensor({static_cast<std::int64_t>(bytes.size())}, device);
  broadcast(group, size, from_rank);
  const auto count = size.item<std::int64_t>();
  if (count == 0) return {};
  at::Tensor data =
      group.rank() == from_rank ? bytes_tensor(bytes, bytes.size(), device) : empty_bytes(count, device);
  broadcast(group, data, from_rank);
  return to_bytes(data, count);
}

std::vector<std::string> broadcast_bytes_list(const Group& group, const std::vector<std::string>& list,
                                              int from_rank) {
  // Their number, their sizes, and then themselves.
  std::string packed;
  append_number(packed, list.size());
  for (const std::string& bytes : list) append_number(packed, bytes.size());
  for (const std::string& bytes : list) packed += bytes;
  packed = broadcast_bytes(group, packed, from_rank);
  std::vector<std::string> received(number_at(packed, 0));
  std::size_t offset = sizeof(Number) * (received.size() + 1);
  for (std::size_t i = 0; i < received.size(); ++i) {
    received[i] = packed.substr(offset, number_at(packed, sizeof(Number) * (i + 1)));
    offset += received[i].size();
  }
  return received;
}

std::vector<std::string> all_gather_bytes(const Group& group, const std::string& bytes) {
  const at::Device device = collective_device(group);
  const std::vector<std::int64_t> sizes = all_sizes(group, bytes, device);
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  if (longest == 0) return std::vector<std::string>(sizes.size());
  return cut_each(all_gather(group, bytes_tensor(bytes, longest, device)), sizes);
}

std::vector<std::string> gather_bytes(const Group& group, const std::string& bytes, int to_rank) {
  check_rank(group, to_rank, "gather_bytes");
  const at::Device device = collective_device(group);
  // All ranks send as many, so all must know the longest.
  const std::vector<std::int64_t> sizes = all_sizes(group, bytes, device);
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  if (longest == 0) return std::vector<std::string>(group.rank() == to_rank ? sizes.size() : 0);
  return cut_each(gather(group, bytes_tensor(bytes, longest, device), to_rank), sizes);
}

std::string scatter_bytes(const Group& group, const std::vector<std::string>& list, int from_rank) {
  check_rank(group, from_rank, "scatter_bytes");
  const at::Device device = collective_device(group);
  std::size_t longest = 0;
  for (const std::string& bytes : list) longest = std::max(longest, bytes.size());
  std::vector<at::Tensor> sizes;
  std::vector<at::Tensor> pieces;
  if (group.rank() == from_rank) {
    for (const std::string& bytes : list) {
      sizes.push_back(numbers_tensor(
          {static_cast<std::int64_t>(bytes.size()), static_cast<std::int64_t>(longest)}, device));
      pieces.push_back(bytes_tensor(bytes, longest, device));
    }
  }
  const at::Tensor mine = numbers_tensor({0, 0}, device);
  scatter(group, mine, sizes, from_rank);
  const at::Tensor numbers = mine.cpu();
  const auto* const number = numbers.const_data_ptr<std::int64_t>();
  if (number[1] == 0) return {};
  const at::Tensor data = empty_bytes(number[1], device);
  scatter(group, data, pieces, from_rank);
  return to_bytes(data, number[0]);
}

void send_bytes(const Group& group, const std::string& bytes, int to_rank, int tag) {
  const at::Device device = collective_device(group);
  send(group, numbers_tensor({static_cast<std::int64_t>(bytes.size())}, device), to_rank, tag);
  if (!bytes.empty()) send(group, bytes_tensor(bytes, bytes.size(), device), to_rank, tag);
}

std::string receive_bytes(const Group& group, int from_rank, int tag) {
  const at::Device device = collective_device(group);
  const at::Tensor size = numbers_tensor({0}, device);
  receive(group, size, from_rank, tag);
  const auto count = size.item<std::int64_t>();
  if (count == 0) return {};
  const at::Tensor data = empty_bytes(count, device);
  receive(group, data, from_rank, tag);
  return to_bytes(data, count);
}

}  // namespace ddprun
