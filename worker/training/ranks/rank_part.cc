#include "worker/training/ranks/rank_bytes.h"

#include <ddprun/collectives.h>
#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

namespace ddprun::training {
namespace {

at::Tensor row_of_bytes(const char* bytes, std::size_t size) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(size)}, at::kByte);
  if (size > 0) std::memcpy(tensor.mutable_data_ptr(), bytes, size);
  return tensor;
}

std::string bytes_of_row(const at::Tensor& tensor, const std::string& entry) {
  // A view of a storage has more bytes than lie there when its strides are 0, and holes when they are large.
  if (tensor.scalar_type() != at::kByte || tensor.dim() != 1 || !tensor.is_contiguous()) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its entry \"{}\" holds {} [{}] with strides [{}]; expected a row of bytes",
                                entry, at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                                fmt::join(tensor.strides(), ", ")));
  }
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

PtList bytes_of_ranks(const Context& context, const RankBlock& block, const std::vector<std::string>& mine) {
  std::string joined;
  for (const std::string& bytes : mine) joined += bytes;
  PtList list;
  for (const std::string& bytes : all_gather_bytes(context, joined)) {
    const std::size_t each = bytes.size() / block.count;
    for (std::size_t turn = 0; turn < block.count; ++turn)
      list.items.emplace_back(row_of_bytes(bytes.data() + turn * each, each));
  }
  return list;
}

std::optional<std::vector<std::string>> bytes_of_block(const PtValue& list, const RankBlock& block,
                                                       const std::string& entry) {
  const std::vector<PtValue>& rows = list.as_sequence();
  if (rows.size() != static_cast<std::size_t>(block.ranks)) return std::nullopt;
  std::vector<std::string> mine;
  for (std::size_t turn = 0; turn < block.count; ++turn)
    mine.push_back(bytes_of_row(rows[static_cast<std::size_t>(block.rank(turn))].as_tensor(), entry));
  return mine;
}

PtList list_of_block(const std::vector<std::string>& mine) {
  PtList list;
  for (const std::string& bytes : mine) list.items.emplace_back(row_of_bytes(bytes.data(), bytes.size()));
  return list;
}

std::vector<std::string> bytes_of_own(const PtValue& list, std::size_t count, const std::string& entry) {
  const std::vector<PtValue>& rows = list.as_sequence();
  if (rows.size() != count) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its entry \"{}\" is of {} ranks; expected {}", entry, rows.size(), count));
  }
  std::vector<std::string> mine;
  for (const PtValue& row : rows) mine.push_back(bytes_of_row(row.as_tensor(), entry));
  return mine;
}

}  // namespace ddprun::training
