#include "worker/runtime/comm/shm/sparse_all_reduce.h"

#include "worker/runtime/comm/shm/gather.h"
#include "worker/runtime/comm/shm/group.h"
#include "worker/runtime/comm/shm/tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace ddprun::runtime::shm {
namespace {

/// `mine`, padded along `dim` to `length`, of every rank.
Result<std::vector<at::Tensor>> gather_padded(Group& group, const at::Tensor& mine, std::int64_t dim,
                                              std::int64_t length) {
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = length;
  const at::Tensor padded = at::zeros(sizes, mine.options());
  padded.narrow(dim, 0, mine.size(dim)).copy_(mine);
  std::vector<at::Tensor> all;
  std::vector<std::byte*> outs;
  for (int rank = 0; rank < group.size(); ++rank) {
    all.push_back(at::empty(sizes, mine.options()));
    outs.push_back(bytes_of(Kind::kAllGather, all.back()).data);
  }
  const Bytes in = bytes_of(Kind::kAllGather, padded);
  Gather gather(in.data, in.size, std::move(outs), describe(Kind::kAllGather, padded));
  if (auto done = group.run_nested(gather); !done) return done.error();
  return all;
}

}  // namespace

SparseAllReduce::SparseAllReduce(const at::Tensor& tensor) : tensor_(tensor) {
  const at::NoGradGuard no_grad;
  input_ = tensor.coalesce();
  what_ = {.kind = Kind::kSparseAllReduce, .dtype = to_dtype(tensor.scalar_type())};
  what_.set_shape({tensor.sizes().data(), tensor.sizes().size()});
}

void SparseAllReduce::contribute(Group&, Post& post) {
  const std::int64_t values = input_._nnz();
  std::memcpy(post.payload.data(), &values, sizeof(values));
}

Result<void> SparseAllReduce::complete(Group& group) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::memcpy(&counts.emplace_back(), group.posted(rank).payload.data(), sizeof(std::int64_t));
  }
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  auto indices = gather_padded(group, input_.indices(), 1, most);
  if (!indices) return indices.error();
  auto values = gather_padded(group, input_.values(), 0, most);
  if (!values) return values.error();

  at::Tensor sum;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const at::Tensor part =
        at::sparse_coo_tensor((*indices)[rank].narrow(1, 0, counts[rank]),
                              (*values)[rank].narrow(0, 0, counts[rank]), input_.sizes(), input_.options());
    if (rank == 0)
      sum = part;
    else
      sum += part;
  }
  tensor_.copy_(sum.coalesce());
  return ok();
}

}  // namespace ddprun::runtime::shm
