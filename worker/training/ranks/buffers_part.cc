#include "worker/training/ranks/buffers_part.h"

#include "worker/training/ranks/rank_part.h"

#include <torch/types.h>
#include <torch/utils.h>

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

bool take_all(const std::vector<std::string>& bytes, std::size_t first, const BuffersByTurn& into) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i].size() != size_of_all(into[first + i])) return false;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) take_bytes(bytes[i].data(), into[first + i]);
  return true;
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

std::unique_ptr<SavedPart> buffers_part(const Context& context, const RankBlock& block,
                                        std::function<BuffersByTurn()> buffers) {
  RankPart::Bytes bytes{.get = [buffers] { return bytes_by_turn(buffers()); },
                        .take = [buffers](const std::vector<std::string>& theirs,
                                          std::size_t first) { return take_all(theirs, first, buffers()); },
                        .begin_anew = [buffers] { spread_first(buffers()); },
                        .misfit = "its running statistics are of another model",
                        .first_own = 1};
  return std::make_unique<RankPart>("rank_buffers", context, block, std::move(bytes));
}

}  // namespace ddprun::training
