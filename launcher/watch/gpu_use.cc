#include "launcher/watch/gpu_use.h"

#include "launcher/process/process_table.h"
#include "launcher/text/text.h"
#include "launcher/why/look/proc_look.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::watch {
namespace {

std::optional<int> parse_index(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// Null: there is none of that index or UUID, which may be cut as CUDA allows.
const GpuReading* find_gpu(const std::vector<GpuReading>& gpus, std::string_view name) {
  if (const std::optional<int> index = parse_index(name))
    return static_cast<std::size_t>(*index) < gpus.size() ? &gpus[static_cast<std::size_t>(*index)] : nullptr;
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const GpuReading& gpu) {
    return !name.empty() && gpu.uuid.starts_with(name);
  });
  return found == gpus.end() ? nullptr : &*found;
}

const GpuReading* gpu_of_local_rank(const std::vector<GpuReading>& gpus, const GpuHints& process) {
  const auto local = static_cast<std::size_t>(process.local_rank);
  if (!process.visible) return local < gpus.size() ? &gpus[local] : nullptr;
  const std::vector<std::string_view> names = split(*process.visible, ',');
  if (names.size() == 1) return find_gpu(gpus, names.front());
  return local < names.size() ? find_gpu(gpus, names[local]) : nullptr;
}

}  // namespace

std::optional<GpuUse> gpu_use(const std::vector<GpuReading>& gpus, const GpuHints& process) {
  std::vector<const GpuReading*> own;
  for (const GpuReading& gpu : gpus) {
    if (std::find(gpu.processes.begin(), gpu.processes.end(), process.pid) != gpu.processes.end())
      own.push_back(&gpu);
  }
  if (own.empty()) {
    const GpuReading* const likely = gpu_of_local_rank(gpus, process);
    if (!process.is_in_container || likely == nullptr || !process.opened.contains(likely->minor))
      return std::nullopt;
    own.push_back(likely);
  }
  GpuUse use{.utilization = 0};
  for (const GpuReading* const gpu : own) {
    use.memory += gpu->memory;
    if (use.utilization && gpu->utilization)
      *use.utilization += *gpu->utilization / static_cast<double>(own.size());
    else
      use.utilization.reset();
  }
  return use;
}

GpuHints gpu_hints(pid_t pid, int local_rank) {
  constexpr std::string_view kDevice = "/dev/nvidia";
  GpuHints hints{.pid = pid, .local_rank = local_rank, .is_in_container = !sees_all_processes()};
  for (const auto& [descriptor, path] : why::open_files(pid)) {
    if (!path.starts_with(kDevice)) continue;
    if (const auto minor = parse_index(std::string_view(path).substr(kDevice.size())))
      hints.opened.insert(*minor);
  }
  hints.visible = variable_of(pid, "CUDA_VISIBLE_DEVICES");
  return hints;
}

}  // namespace ddprun::launcher::watch
