#include "worker/training/ranks/ring_sum.h"

#include "tests/support/catch.h"
#include "worker/runtime/comm/shm/fold.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <span>
#include <vector>

using namespace ddprun;
using ddprun::training::ring_sum;

namespace {

/// What shm's all-reduce, whose order is gloo's, makes of the rows.
at::Tensor all_reduced(const at::Tensor& rows) {
  namespace shm = runtime::shm;
  std::vector<const std::byte*> sources;
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank)
    sources.push_back(static_cast<const std::byte*>(rows[rank].const_data_ptr()));
  at::Tensor out = at::empty({rows.size(1)}, rows.options());
  const std::vector<std::byte*> targets{static_cast<std::byte*>(out.mutable_data_ptr())};
  const std::size_t bytes = out.nbytes();
  shm::fold({.kernels = shm::find_kernels(shm::DType::kFloat32, shm::ReduceOp::kSum),
             .item_bytes = sizeof(float),
             .is_average = false,
             .order = shm::RingOrder(bytes, sizeof(float), static_cast<int>(rows.size(0)))},
            0, bytes, sources, targets);
  return out;
}

/// Numbers whose sums depend on their order.
at::Tensor rows_of(std::int64_t ranks, std::int64_t elements) {
  torch::manual_seed(7);
  return at::randn({ranks, elements}) * at::pow(10, at::randn({ranks, elements}));
}

}  // namespace

TEST_CASE("rows are summed with the bits of an all-reduce") {
  for (const std::int64_t ranks : {2, 3, 4, 7}) {
    for (const std::int64_t elements : {1, 2, 5, 1000, 700001}) {
      const at::Tensor rows = rows_of(ranks, elements);
      at::Tensor out = at::empty({elements});
      ring_sum(out, rows, {.first = 0, .whole = elements});
      CHECK(at::equal(out, all_reduced(rows)));
    }
  }
}

TEST_CASE("a sum in the order of the ranks has other bits") {
  const at::Tensor rows = rows_of(4, 1000);
  at::Tensor in_order = rows[0].clone();
  for (std::int64_t rank = 1; rank < 4; ++rank) in_order.add_(rows[rank]);
  CHECK_FALSE(at::equal(in_order, all_reduced(rows)));
}

TEST_CASE("slices of rows are summed as they are within the whole, also one that ends behind it") {
  constexpr std::int64_t kWhole = 1003;
  constexpr std::int64_t kSlice = 251;  // of four processes
  const at::Tensor rows = rows_of(4, kWhole);
  const at::Tensor padded = at::constant_pad_nd(rows, {0, 4 * kSlice - kWhole});
  at::Tensor out = at::empty({4 * kSlice});
  for (std::int64_t process = 0; process < 4; ++process) {
    const std::int64_t first = process * kSlice;
    ring_sum(out.narrow(0, first, kSlice), padded.narrow(1, first, kSlice),
             {.first = first, .whole = kWhole});
  }
  CHECK(at::equal(out.narrow(0, 0, kWhole), all_reduced(rows)));
}

TEST_CASE("the sum of one rank is that rank") {
  const at::Tensor rows = rows_of(1, 9);
  at::Tensor out = at::empty({9});
  ring_sum(out, rows, {.first = 0, .whole = 9});
  CHECK(at::equal(out, rows[0]));
}
