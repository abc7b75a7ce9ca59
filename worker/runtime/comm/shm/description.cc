#include "worker/runtime/comm/shm/description.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::runtime::shm {
namespace {

bool is_reduction(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

std::string_view root_word(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kScatter ? "from" : "to";
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kBarrier:
      return "barrier";
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kSparseAllReduce:
      return "sparse all-reduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllGather:
      return "all-gather";
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kAllToAll:
      return "all-to-all";
    case Kind::kSend:
      return "send";
    case Kind::kReceive:
      return "receive";
  }
  check_failed("kind", "not a Kind", __FILE__, __LINE__);
}

void Description::set_shape(std::span<const std::int64_t> sizes) {
  count = 1;
  shape_hash = 2166136261U;  // FNV-1a
  dims_count = static_cast<std::uint8_t>(std::min(sizes.size(), std::size_t{255}));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    count *= static_cast<std::uint64_t>(sizes[i]);
    if (i < kMaxDims) dims[i] = sizes[i];
    if (sizes[i] != 1) shape_hash = (shape_hash ^ static_cast<std::uint32_t>(sizes[i])) * 16777619U;
  }
}

std::string Description::to_text() const {
  std::string text(to_string(kind));
  if (is_reduction(kind)) text += fmt::format(" ({})", to_string(op));
  if (root >= 0) text += fmt::format(" {} rank {}", root_word(kind), root);
  if (kind == Kind::kBarrier) return text;
  if (kind == Kind::kAllToAll) return text + fmt::format(" of {}", to_string(dtype));
  const auto shown = std::min<std::size_t>(dims_count, kMaxDims);
  return text + fmt::format(" of {}[{}{}]", to_string(dtype),
                            fmt::join(dims.begin(), dims.begin() + shown, ", "),
                            dims_count > kMaxDims ? ", …" : "");
}

std::uint64_t Description::key() const {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(dtype) << 8U |
         static_cast<std::uint64_t>(op) << 16U |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 32U;
}

}  // namespace ddprun::runtime::shm
