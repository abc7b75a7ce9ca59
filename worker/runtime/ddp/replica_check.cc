#include "worker/runtime/ddp/replica_check.h"

#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

constexpr const char* kFrozen = "frozen ";
constexpr const char* kBuffer = "buffer ";

// The part of a line that must agree: everything after the name.
std::string layout(const std::string& line) { return line.substr(line.find(' ') + 1); }

std::string name(const std::string& line) { return line.substr(0, line.find(' ')); }

std::uint64_t digest(const std::vector<std::string>& lines) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const std::string& line : lines) {
    for (const char c : layout(line) + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

bool all_agree(const Group& group, const std::vector<std::string>& lines) {
  const at::Tensor mine = torch::full({1}, static_cast<std::int64_t>(digest(lines)), torch::kInt64);
  const auto all = all_gather(group, mine.to(collective_device(group)));
  return std::all_of(all.begin(), all.end(), [&](const at::Tensor& one) { return one.equal(all.front()); });
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> describe(const std::vector<ModuleView::Parameter>& parameters,
                                  const std::vector<std::string>& ignored,
                                  const std::vector<NamedTensor>& buffers) {
  const auto shape = [](const at::Tensor& tensor) {
    return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                       fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
  };
  std::vector<std::string> lines;
  for (const auto& [parameter_name, tensor, is_sparse] : parameters) {
    if (!tensor.defined() || std::find(ignored.begin(), ignored.end(), parameter_name) != ignored.end())
      continue;
    if (!tensor.requires_grad()) {
      lines.push_back(fmt::format("{} {}{}", parameter_name, kFrozen, shape(tensor)));
      continue;
    }
    // Buckets have the strides of their parameters.
    lines.push_back(fmt::format("{} {} strides [{}]{}", parameter_name, shape(tensor),
                                fmt::join(tensor.strides().begin(), tensor.strides().end(), ", "),
                                is_sparse ? " with sparse gradients" : ""));
  }
  for (const auto& [buffer_name, tensor] : buffers) {
    if (tensor.defined()) lines.push_back(fmt::format("{} {}{}", buffer_name, kBuffer, shape(tensor)));
  }
  return lines;
}

std::string first_difference(const std::vector<std::string>& rank0, const std::vector<std::string>& mine,
                             int rank) {
  const auto trained = [](const std::vector<std::string>& lines) {
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return !layout(line).starts_with(kFrozen) && !layout(line).starts_with(kBuffer);
    });
  };
  if (trained(rank0) != trained(mine)) {
    return fmt::format("rank {} has {} trainable parameters, rank 0 has {}", rank, trained(mine),
                       trained(rank0));
  }
  if (rank0.size() != mine.size()) {
    return fmt::format("rank {} has {} parameters and buffers, rank 0 has {}", rank, mine.size(),
                       rank0.size());
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (layout(rank0[i]) == layout(mine[i])) continue;
    const bool is_buffer = layout(mine[i]).starts_with(kBuffer);
    return fmt::format("{} ({}) is {} on rank {} and {} on rank 0 (there named {})",
                       is_buffer ? "a buffer" : fmt::format("parameter {}", i), name(mine[i]),
                       layout(mine[i]), rank, layout(rank0[i]), name(rank0[i]));
  }
  return {};
}

void verify_replicas(const Group& group, const std::vector<ModuleView::Parameter>& parameters,
                     const std::vector<std::string>& ignored, const std::vector<NamedTensor>& buffers) {
  const std::vector<std::string> mine = describe(parameters, ignored, buffers);
  if (all_agree(group, mine)) return;
  std::string text;
  for (const std::string& line : mine) text += line + "\n";
  const std::vector<std::string> rank0 = split_lines(broadcast_bytes(group, text, 0));
  for (const std::string& difference : all_gather_bytes(group, first_difference(rank0, mine, group.rank()))) {
    if (difference.empty()) continue;
    throw Exception(ErrorCode::kConfig, "DistributedDataParallel: the ranks have different models: " +
                                            difference + "; build the same model on every rank");
  }
}

}  // namespace ddprun::runtime
