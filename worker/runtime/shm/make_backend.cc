#include "worker/runtime/shm/make_backend.h"

#include "worker/runtime/shm/arena_allocator.h"
#include "worker/runtime/shm/shm_backend.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

namespace ddprun::runtime {
namespace {

using shm::Group;
using shm::Segment;
using shm::SegmentAddress;

constexpr const char* kAddressKey = "address";
constexpr const char* kVerdictKey = "verdict";
constexpr std::string_view kGood = "ok ";
constexpr std::string_view kBad = "no ";

std::string opened_key(int rank) { return fmt::format("opened/{}", rank); }

void put(const ShmOptions& options, const std::string& key, const std::string& text) {
  options.store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string take(const ShmOptions& options, const std::string& key) {
  options.store->wait({key}, options.timeout);
  const std::vector<std::uint8_t> bytes = options.store->get(key);
  return {bytes.begin(), bytes.end()};
}

/// Written by a rank into the store: that it has what it needs, or why not.
std::string outcome_text(const Result<std::shared_ptr<Segment>>& segment) {
  return segment ? std::string(kGood) : std::string(kBad) + segment.error().message();
}

Result<std::shared_ptr<Segment>> create_and_announce(const ShmOptions& options) {
  auto segment = Segment::create({.size = options.world_size});
  if (!segment) {
    put(options, kAddressKey, outcome_text(segment));
    return segment;
  }
  const auto address = (*segment)->address();
  if (!address) {
    put(options, kAddressKey, std::string(kBad) + address.error().message());
    return address.error();
  }
  put(options, kAddressKey, std::string(kGood) + address->to_text());
  return segment;
}

Result<std::shared_ptr<Segment>> open_announced(const ShmOptions& options) {
  const std::string announced = take(options, kAddressKey);
  if (!announced.starts_with(kGood)) return Error(ErrorCode::kUnavailable, announced.substr(kBad.size()));
  const auto address = SegmentAddress::parse(announced.substr(kGood.size()));
  if (!address) return address.error();
  return Segment::open(*address);
}

/// Every rank learns whether all ranks have the segment, in the words of the first one that has not.
std::string agree(const ShmOptions& options, const Result<std::shared_ptr<Segment>>& segment) {
  if (options.rank != 0) {
    put(options, opened_key(options.rank), outcome_text(segment));
    return take(options, kVerdictKey);
  }
  std::string verdict = outcome_text(segment);
  if (!segment) verdict = fmt::format("{}rank 0: {}", kBad, segment.error().message());
  for (int rank = 1; rank < options.world_size && segment; ++rank) {
    const std::string opened = take(options, opened_key(rank));
    if (opened.starts_with(kGood)) continue;
    verdict = fmt::format("{}rank {}: {}", kBad, rank, opened.substr(kBad.size()));
    break;
  }
  put(options, kVerdictKey, verdict);
  return verdict;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const ShmOptions& options) {
  auto segment = options.rank == 0 ? create_and_announce(options) : open_announced(options);
  const std::string verdict = agree(options, segment);
  if (!verdict.starts_with(kGood)) {
    throw Exception(ErrorCode::kUnavailable,
                    fmt::format("shared memory between the {} ranks cannot be had: {}", options.world_size,
                                verdict.substr(kBad.size())));
  }
  auto group = Group::join(*segment, options.rank, options.timeout);
  if (!group) throw Exception(group.error().code(), group.error().message());
  return c10::make_intrusive<shm::ShmBackend>(std::move(*segment), std::move(*group), options.timeout);
}

BucketAllocationScope::BucketAllocationScope(c10d::ProcessGroup& group, const at::Device& device) {
  if (!device.is_cpu()) return;  // a group for GPUs alone has no backend for the CPU to ask
  const auto backend = group.getBackend(c10::DeviceType::CPU);
  const auto* const shm = dynamic_cast<shm::ShmBackend*>(backend.get());
  if (shm == nullptr) return;
  shm::ArenaAllocator::instance().use_on_this_thread(shm->arena());
  is_active_ = true;
}

BucketAllocationScope::~BucketAllocationScope() {
  if (is_active_) shm::ArenaAllocator::instance().use_on_this_thread(nullptr);
}

}  // namespace ddprun::runtime
