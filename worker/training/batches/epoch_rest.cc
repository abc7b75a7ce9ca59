#include "worker/training/batches/epoch_rest.h"

#include <algorithm>

namespace ddprun::training {
namespace {

DistributedSampler sampler_of(const EpochDeal& deal, int ranks, int rank) {
  DistributedSamplerOptions options = deal.sampler;
  options.world_size = ranks;
  options.rank = rank;
  DistributedSampler sampler(deal.samples, options);
  sampler.set_epoch(deal.epoch);
  return sampler;
}

/// Samples of all ranks in the first batch: what is left after it is divided by them, and ends with no batch of fewer
/// than `least`.
std::int64_t size_of_first(const EpochDeal& deal, std::int64_t left, std::int64_t ranks) {
  if (left <= ranks * deal.batch_size) return left;
  const std::int64_t over = left % ranks;
  std::int64_t each = over > 0 ? deal.batch_size - 1 : deal.batch_size;
  const std::int64_t last = (left / ranks - each) % deal.batch_size;
  if (last > 0 && last < deal.least) each -= deal.least - last;
  return each * ranks + over;
}

}  // namespace

EpochRest::EpochRest(const RankBlock& block, const EpochDeal& deal)
    : ranks_(block.ranks), by_turn_(block.count) {
  std::int64_t seen = deal.seen;
  if (deal.is_of_another_world) {
    std::int64_t left = std::max<std::int64_t>(0, deal.samples - deal.seen);
    if (deal.sampler.drop_last) left -= left % block.ranks;
    if (deal.drops_last_batch) left -= left % (block.ranks * deal.batch_size);
    if (left == 0) return;
    const std::int64_t first = size_of_first(deal, left, block.ranks);
    deal_first(block, deal, first);
    seen += first;
  }
  for (std::size_t turn = 0; turn < block.count; ++turn) {
    DistributedSampler sampler = sampler_of(deal, block.ranks, block.rank(turn));
    sampler.start_after(seen);
    for (auto& batch : data::split(sampler.indices(), deal.batch_size)) {
      if (deal.drops_last_batch && static_cast<std::int64_t>(batch.size()) < deal.batch_size) break;
      by_turn_[turn].push_back(std::move(batch));
    }
  }
  if (in_first_ == 0 && batch_count() > 0)
    in_first_ = static_cast<std::int64_t>(by_turn_.front().front().size()) * ranks_;
}

void EpochRest::deal_first(const RankBlock& block, const EpochDeal& deal, std::int64_t count) {
  in_first_ = count;
  const std::vector<std::int64_t> order = sampler_of(deal, 1, 0).global_indices();
  const bool is_enough = count >= deal.least * block.ranks;
  const std::int64_t holders = is_enough ? block.ranks : std::max<std::int64_t>(1, count / deal.least);
  for (std::size_t turn = 0; turn < block.count; ++turn) {
    std::vector<std::int64_t>& batch = by_turn_[turn].emplace_back();
    for (std::int64_t at = block.rank(turn); block.rank(turn) < holders && at < count; at += holders)
      batch.push_back(order[static_cast<std::size_t>(deal.seen + at)]);
    counted_in_first_.push_back(static_cast<std::int64_t>(batch.size()));
    for (std::size_t i = 0; static_cast<std::int64_t>(batch.size()) < deal.least; ++i)
      batch.push_back(order[i % order.size()]);
  }
  if (count == deal.batch_size * block.ranks) counted_in_first_.clear();
}

EpochRest::Samples EpochRest::of_batches(std::int64_t first, std::int64_t count) const {
  Samples samples;
  for (const data::BatchList& batches : by_turn_) {
    std::vector<std::int64_t>& of_rank = samples.emplace_back();
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::vector<std::int64_t>& batch = batches.at(static_cast<std::size_t>(i));
      of_rank.insert(of_rank.end(), batch.begin(), batch.end());
    }
  }
  return samples;
}

std::vector<std::vector<double>> EpochRest::weights_of_first(std::int64_t count) const {
  std::vector<std::vector<double>> weights;
  if (counted_in_first_.empty()) return weights;
  const double mean = static_cast<double>(samples_of(0, count)) / ranks_;
  for (std::size_t turn = 0; turn < by_turn_.size(); ++turn) {
    std::vector<double>& of_rank = weights.emplace_back();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto size = static_cast<std::int64_t>(by_turn_[turn].at(i).size());
      of_rank.push_back(static_cast<double>(i == 0 ? counted_in_first_[turn] : size) / mean);
    }
  }
  return weights;
}

std::int64_t EpochRest::samples_of(std::int64_t first, std::int64_t count) const {
  std::int64_t samples = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    samples +=
        i == 0 ? in_first_
               : static_cast<std::int64_t>(by_turn_.front().at(static_cast<std::size_t>(i)).size()) * ranks_;
  }
  return samples;
}

}  // namespace ddprun::training
