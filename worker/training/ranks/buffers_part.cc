#include "worker/training/ranks/buffers_part.h"

#include "worker/training/ranks/rank_bytes.h"
#include <ddprun/exception.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun::training {
namespace {

using Tensors = std::vector<at::Tensor>;

std::string bytes_of_all(const Tensors& tensors) {
  std::string bytes;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor here = tensor.detach().cpu().contiguous();
    bytes.append(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
  }
  return bytes;
}

std::size_t size_of_all(const Tensors& tensors) {
  std::size_t size = 0;
  for (const at::Tensor& tensor : tensors) size += tensor.nbytes();
  return size;
}

void take_bytes(const char* bytes, const Tensors& into) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& tensor : into) {
    at::Tensor here = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    if (here.nbytes() > 0) std::memcpy(here.mutable_data_ptr(), bytes, here.nbytes());
    bytes += here.nbytes();
    tensor.copy_(here);
  }
}

/// False, and nothing is changed: the bytes are of other buffers.
bool take_all(const std::vector<std::string>& bytes, const BuffersByTurn& into) {
  for (std::size_t turn = 0; turn < into.size(); ++turn) {
    if (bytes[turn].size() != size_of_all(into[turn])) return false;
  }
  for (std::size_t turn = 0; turn < into.size(); ++turn) take_bytes(bytes[turn].data(), into[turn]);
  return true;
}

/// Those that are not the model's.
BuffersByTurn others_of(BuffersByTurn buffers) {
  buffers.erase(buffers.begin());
  return buffers;
}

std::vector<std::string> bytes_by_turn(const BuffersByTurn& buffers) {
  std::vector<std::string> bytes;
  for (const Tensors& tensors : buffers) bytes.push_back(bytes_of_all(tensors));
  return bytes;
}

}  // namespace

void spread_first(const BuffersByTurn& buffers) {
  const torch::NoGradGuard no_grad;
  for (std::size_t turn = 1; turn < buffers.size(); ++turn) {
    for (std::size_t i = 0; i < buffers[turn].size(); ++i) buffers[turn][i].copy_(buffers[0][i]);
  }
}

BuffersPart::BuffersPart(const Context& context, const RankBlock& block,
                         std::function<BuffersByTurn()> buffers)
    : SavedPart("rank_buffers"), context_(context), block_(block), buffers_(std::move(buffers)) {}

PtValue BuffersPart::save() { return bytes_of_ranks(context_, block_, bytes_by_turn(buffers_())); }

void BuffersPart::load(const PtValue& value) {
  const auto bytes = bytes_of_block(value, block_, key());
  const BuffersByTurn buffers = buffers_();
  if (!bytes || !take_all(*bytes, buffers)) spread_first(buffers);
}

PtValue BuffersPart::save_own() { return list_of_block(bytes_by_turn(others_of(buffers_()))); }

void BuffersPart::load_halves(const PtValue& /*common*/, const PtValue& own) {
  const BuffersByTurn others = others_of(buffers_());
  if (!take_all(bytes_of_own(own, others.size(), key()), others))
    throw Exception(ErrorCode::kCorrupt, "its running statistics are of another model");
}

}  // namespace ddprun::training
