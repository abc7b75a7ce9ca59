#include "worker/runtime/comm/shm/make_backend.h"

#include "worker/runtime/comm/roll_call/await_keys.h"
#include "worker/runtime/comm/roll_call/roll_call.h"
#include "worker/runtime/comm/roll_call/store_text.h"
#include "worker/runtime/comm/shm/shm_backend.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

namespace ddprun::runtime {
namespace {

using shm::Segment;
using shm::SegmentAddress;

constexpr const char* kAddressKey = "address";
constexpr std::string_view kHas = "ok ";
constexpr std::string_view kHasNot = "no ";

std::string take_announced(const ShmOptions& options) {
  if (await_keys(*options.store, {kAddressKey}, options.timeout))
    return take_text(*options.store, kAddressKey);
  throw Exception(
      ErrorCode::kTimeout,
      fmt::format("shm: rank {} waited for {:.1f} s for rank 0 to say where the shared memory is; look "
                  "for its last output",
                  options.rank, std::chrono::duration<double>(options.timeout).count()));
}

/// Written by a rank into the store: that it has what it needs, or why not.
std::string outcome_text(const Result<std::shared_ptr<Segment>>& segment) {
  return segment ? std::string(kHas) : std::string(kHasNot) + segment.error().message();
}

Result<std::shared_ptr<Segment>> create_and_announce(const ShmOptions& options) {
  auto segment = Segment::create({.size = options.world_size});
  if (!segment) {
    put_text(*options.store, kAddressKey, outcome_text(segment));
    return segment;
  }
  const auto address = (*segment)->address();
  if (!address) {
    put_text(*options.store, kAddressKey, std::string(kHasNot) + address.error().message());
    return address.error();
  }
  put_text(*options.store, kAddressKey, std::string(kHas) + address->to_text());
  return segment;
}

Result<std::shared_ptr<Segment>> open_announced(const ShmOptions& options) {
  const std::string announced = take_announced(options);
  if (!announced.starts_with(kHas)) return Error(ErrorCode::kUnavailable, announced.substr(kHasNot.size()));
  const auto address = SegmentAddress::parse(announced.substr(kHas.size()));
  if (!address) return address.error();
  return Segment::open(*address);
}

/// Every rank learns whether all ranks have the segment, in the words of the first one that has not.
Result<std::string> agree(const ShmOptions& options, const Result<std::shared_ptr<Segment>>& segment) {
  const RollCall call{.store = *options.store,
                      .prefix = "opened",
                      .rank = options.rank,
                      .size = options.world_size,
                      .timeout = options.timeout};
  const auto judge = [](const std::vector<std::string>& said) -> Result<std::string> {
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      if (said[rank].starts_with(kHas)) continue;
      return Error(ErrorCode::kUnavailable, fmt::format("rank {}: {}", rank, said[rank].substr(kHas.size())));
    }
    return std::string();
  };
  return call_roll(call, outcome_text(segment), judge);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const ShmOptions& options) {
  auto segment = options.rank == 0 ? create_and_announce(options) : open_announced(options);
  if (const auto agreed = agree(options, segment); !agreed) {
    throw Exception(agreed.error().code(), fmt::format("shared memory between the {} ranks cannot be had: {}",
                                                       options.world_size, agreed.error().message()));
  }
  if (!segment) {
    // kUnavailable would have this rank alone turn to another backend.
    throw Exception(
        ErrorCode::kCorrupt,
        fmt::format("shm: the store says that all {} ranks have the shared memory, and rank {} has not: {}; "
                    "are these keys of another program?",
                    options.world_size, options.rank, segment.error().message()));
  }
  auto group = shm::Group::join(*segment, options.rank, options.timeout);
  if (!group) throw Exception(group.error().code(), group.error().message());
  return c10::make_intrusive<shm::ShmBackend>(std::move(*segment), std::move(*group), options.timeout,
                                              options.name);
}

}  // namespace ddprun::runtime
