#include "worker/training/ranks/rank_part.h"

#include <ddprun/collectives.h>
#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

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

std::vector<std::string> bytes_of_rows(const PtValue* first, std::size_t count, const std::string& entry) {
  std::vector<std::string> bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(bytes_of_row(first[i].as_tensor(), entry));
  return bytes;
}

}  // namespace

RankPart::RankPart(std::string key, const Context& context, const RankBlock& block, Bytes bytes)
    : SavedPart(std::move(key)), context_(context), block_(block), bytes_(std::move(bytes)) {}

PtValue RankPart::save() {
  std::string joined;
  for (const std::string& bytes : bytes_.get()) joined += bytes;
  PtList list;
  for (const std::string& bytes : all_gather_bytes(context_, joined)) {
    const std::size_t each = bytes.size() / block_.count;
    for (std::size_t turn = 0; turn < block_.count; ++turn)
      list.items.emplace_back(row_of_bytes(bytes.data() + turn * each, each));
  }
  return list;
}

void RankPart::load(const PtValue& value) {
  const std::vector<PtValue>& rows = value.as_sequence();
  if (rows.size() == static_cast<std::size_t>(block_.ranks) &&
      bytes_.take(bytes_of_rows(&rows[static_cast<std::size_t>(block_.first)], block_.count, key()), 0))
    return;
  bytes_.begin_anew();
}

PtValue RankPart::save_own() {
  const std::vector<std::string> mine = bytes_.get();
  PtList list;
  for (std::size_t turn = bytes_.first_own; turn < mine.size(); ++turn)
    list.items.emplace_back(row_of_bytes(mine[turn].data(), mine[turn].size()));
  return list;
}

void RankPart::load_halves(const PtValue& /*common*/, const PtValue& own) {
  const std::vector<PtValue>& rows = own.as_sequence();
  const std::size_t count = block_.count - bytes_.first_own;
  if (rows.size() != count) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its entry \"{}\" is of {} ranks; expected {}", key(), rows.size(), count));
  }
  if (!bytes_.take(bytes_of_rows(rows.data(), count, key()), bytes_.first_own))
    throw Exception(ErrorCode::kCorrupt, bytes_.misfit);
}

}  // namespace ddprun::training
