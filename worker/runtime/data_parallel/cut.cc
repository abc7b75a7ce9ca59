#include <ddprun/exception.h>
#include <ddprun/replicas.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

at::Tensor join_column(const std::vector<at::Tensor>& pieces, std::int64_t dim, const at::Device& device) {
  if (!pieces.front().defined()) return {};
  std::vector<at::Tensor> here;
  for (const at::Tensor& piece : pieces) {
    here.push_back((piece.dim() == 0 && pieces.size() > 1 ? piece.unsqueeze(0) : piece)
                       .to(device, /*non_blocking=*/piece.is_cuda() && device.is_cuda()));
  }
  if (here.size() == 1) return here.front();
  return torch::cat(here, pieces.front().dim() == 0 ? 0 : dim);
}

}  // namespace

Cut::Cut(std::string who, std::int64_t dim, std::size_t parts)
    : who_(std::move(who)), dim_(dim), parts_(parts) {}

void Cut::see(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() == 0) return;
  if (dim_ < 0 || dim_ >= tensor.dim()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: a tensor of shape {} has no dimension {} to be cut along; choose "
                                "option dim, or give what belongs to every device without dimensions",
                                who_, shape_of(tensor), dim_));
  }
  const std::int64_t length = tensor.size(dim_);
  if (length_ && *length_ != length) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: a tensor of shape {} has length {} along dimension {}, another one "
                                "has {}; all tensors of a batch must be equally long",
                                who_, shape_of(tensor), length, dim_, *length_));
  }
  length_ = length;
}

std::int64_t Cut::step() const {
  const auto parts = static_cast<std::int64_t>(parts_);
  return std::max<std::int64_t>((length_.value_or(0) + parts - 1) / parts, 1);
}

std::size_t Cut::pieces() const {
  if (length_.value_or(0) == 0) return 1;
  return static_cast<std::size_t>((*length_ + step() - 1) / step());
}

void Cut::expect_pieces(std::size_t expected) const {
  if (pieces() == expected) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: a batch of {} makes {} pieces, the outputs have {}; give outputs and "
                              "targets of the same batch",
                              who_, length_.value_or(0), pieces(), expected));
}

std::int64_t Cut::length_of(std::size_t piece) const {
  const std::int64_t start = static_cast<std::int64_t>(piece) * step();
  return std::clamp<std::int64_t>(length_.value_or(0) - start, 0, step());
}

double Cut::share_of(std::size_t piece) const {
  if (length_.value_or(0) == 0) return 1;
  return static_cast<double>(length_of(piece)) / static_cast<double>(*length_);
}

at::Tensor Cut::piece(const at::Tensor& tensor, std::size_t piece, const at::Device& device) const {
  if (!tensor.defined()) return tensor;
  const bool is_cut = tensor.dim() > 0 && pieces() > 1;
  const at::Tensor part =
      is_cut ? tensor.narrow(dim_, static_cast<std::int64_t>(piece) * step(), length_of(piece)) : tensor;
  return part.to(device, /*non_blocking=*/part.is_cuda() && device.is_cuda());
}

std::vector<at::Tensor> join_outputs(const std::vector<std::vector<at::Tensor>>& by_replica, std::int64_t dim,
                                     const at::Device& device) {
  const std::size_t count = by_replica.front().size();
  for (std::size_t replica = 0; replica < by_replica.size(); ++replica) {
    if (by_replica[replica].size() == count) continue;
    throw Exception(ErrorCode::kConfig,
                    fmt::format("DataParallel: replica {} gave {} tensors, replica 0 gave {}; outputs "
                                "that differ in form cannot be put together",
                                replica, by_replica[replica].size(), count));
  }
  std::vector<at::Tensor> joined;
  for (std::size_t column = 0; column < count; ++column) {
    std::vector<at::Tensor> pieces;
    for (const auto& tensors : by_replica) pieces.push_back(tensors[column]);
    joined.push_back(join_column(pieces, dim, device));
  }
  return joined;
}

at::Tensor join_losses(const std::vector<at::Tensor>& losses, const Cut& cut, bool weighted,
                       const at::Device& device) {
  at::Tensor total;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses[i].dim() != 0) {
      throw Exception(
          ErrorCode::kConfig,
          fmt::format("DataParallelCriterion: the criterion gave a loss of shape {}; expected one "
                      "without dimensions: let it reduce over the samples",
                      shape_of(losses[i])));
    }
    const at::Tensor loss =
        (weighted && losses.size() > 1 ? losses[i] * cut.share_of(i) : losses[i]).to(device);
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

}  // namespace ddprun::runtime
