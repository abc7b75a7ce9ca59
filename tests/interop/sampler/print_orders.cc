// Reads cases, one a line (n world seed epoch drop_last shuffle batch_size drop_batch start_sample
// start_batch), and prints for each rank of each: its indices, those from start_sample on, its batches, those
// from start_batch on.
#include <ddprun/distributed_batch_sampler.h>
#include <ddprun/distributed_sampler.h>

#include <cstdint>
#include <iostream>
#include <string>

namespace ddprun {
namespace {

struct Case {
  std::int64_t n = 0;
  int world = 1;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool drop_last = false, shuffle = true;
  std::int64_t batch_size = 1;
  bool drop_batch = false;
  std::int64_t start_sample = 0, start_batch = 0;
};

std::istream& operator>>(std::istream& in, Case& c) {
  return in >> c.n >> c.world >> c.seed >> c.epoch >> c.drop_last >> c.shuffle >> c.batch_size >>
         c.drop_batch >> c.start_sample >> c.start_batch;
}

void print(const std::vector<std::int64_t>& indices) {
  for (const std::int64_t index : indices) std::cout << index << ' ';
}

void print(const std::vector<std::vector<std::int64_t>>& batches) {
  for (const auto& batch : batches) {
    print(batch);
    std::cout << "/ ";
  }
}

void print_rank(const Case& c, int rank) {
  DistributedSampler sampler(
      c.n,
      {.world_size = c.world, .rank = rank, .shuffle = c.shuffle, .drop_last = c.drop_last, .seed = c.seed});
  using LastBatch = DistributedBatchSampler::LastBatch;
  DistributedBatchSampler batches(sampler, c.batch_size, c.drop_batch ? LastBatch::kDrop : LastBatch::kKeep);
  sampler.set_epoch(c.epoch);
  batches.set_epoch(c.epoch);
  std::cout << sampler.samples_per_rank() << ": ";
  print(sampler.indices());
  std::cout << "| ";
  sampler.start_at(c.start_sample);
  print(sampler.indices());
  std::cout << "| " << batches.batches_per_epoch() << ": ";
  print(batches.batches());
  std::cout << "| ";
  batches.start_at_batch(c.start_batch);
  print(batches.batches());
  std::cout << '\n';
}

}  // namespace
}  // namespace ddprun

int main() {
  std::ios::sync_with_stdio(false);
  for (ddprun::Case c; std::cin >> c;) {
    for (int rank = 0; rank < c.world; ++rank) ddprun::print_rank(c, rank);
  }
}
