#include "worker/runtime/checkpoint/share_pt.h"

#include <ddprun/collectives.h>
#include <ddprun/pt_file.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace ddprun::runtime {
namespace {

constexpr std::int64_t kSharedPieceBytes = 16 << 20;

}  // namespace

std::string share_bytes(const Group& group, std::span<const std::byte> bytes, int from_rank) {
  const bool is_source = group.rank() == from_rank;
  const std::int64_t size =
      std::stoll(broadcast_bytes(group, is_source ? std::to_string(bytes.size()) : "", from_rank));
  const at::Device device = collective_device(group);
  std::string received(is_source ? 0 : static_cast<std::size_t>(size), '\0');
  for (std::int64_t at = 0; at < size; at += kSharedPieceBytes) {
    const std::int64_t count = std::min(kSharedPieceBytes, size - at);
    if (is_source) {
      // Nobody writes to what is sent: on the CPU no copy is made of it.
      auto* const begin = const_cast<std::byte*>(bytes.data() + at);
      broadcast(group, at::from_blob(begin, {count}, at::kByte).to(device), from_rank);
    } else {
      const at::Tensor piece = at::empty({count}, at::TensorOptions(device).dtype(at::kByte));
      broadcast(group, piece, from_rank);
      std::memcpy(received.data() + at, piece.cpu().const_data_ptr(), static_cast<std::size_t>(count));
    }
  }
  return received;
}

PtValue share_pt(const Group& group, std::span<const std::byte> bytes, const std::string& name,
                 int from_rank) {
  const std::string received = share_bytes(group, bytes, from_rank);
  return group.rank() == from_rank ? PtValue() : parse_pt(std::as_bytes(std::span(received)), name);
}

}  // namespace ddprun::runtime
