#include "launcher/why/look/work_process.h"

#include "launcher/process/process_table.h"
#include "launcher/why/look/proc_look.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

bool only_starts_programs(pid_t pid) {
  static constexpr std::array<std::string_view, 16> kNames{
      "sh", "bash", "dash", "ash",    "busybox", "zsh",  "ksh",     "mksh",
      "uv", "nsys", "ncu",  "strace", "fish",    "time", "timeout", "unshare"};
  std::error_code unreadable;
  const std::string name =
      std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), unreadable).filename().string();
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The children of all of them, the oldest first.
std::vector<const WorkCandidate*> children_of(const std::vector<const WorkCandidate*>& parents,
                                              const std::vector<WorkCandidate>& processes) {
  std::vector<const WorkCandidate*> children;
  for (const WorkCandidate& process : processes) {
    const bool is_child = std::any_of(parents.begin(), parents.end(), [&](const WorkCandidate* parent) {
      return parent->pid == process.parent;
    });
    if (is_child) children.push_back(&process);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const auto* a, const auto* b) { return a->started < b->started; });
  return children;
}

}  // namespace

pid_t choose_work_process(pid_t worker, const std::vector<WorkCandidate>& processes) {
  const auto root =
      std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.pid == worker; });
  if (root == processes.end()) return worker;
  std::vector<const WorkCandidate*> generation{&*root};
  for (std::size_t depth = 0; !generation.empty() && depth <= processes.size(); ++depth) {
    const auto torch =
        std::find_if(generation.begin(), generation.end(), [](const auto* p) { return p->has_torch; });
    if (torch != generation.end()) return (*torch)->pid;
    generation = children_of(generation, processes);
  }
  const WorkCandidate* work = &*root;
  for (std::size_t depth = 0; work->only_starts && depth <= processes.size(); ++depth) {
    const std::vector<const WorkCandidate*> children = children_of({work}, processes);
    if (children.size() != 1) break;
    work = children.front();
  }
  return work->pid;
}

bool has_torch(pid_t pid) {
  return read_text(fmt::format("/proc/{}/maps", pid)).find("/libtorch_cpu.so") != std::string::npos;
}

pid_t find_work_process(pid_t worker, const std::vector<ProcessEntry>& processes) {
  if (has_torch(worker)) return worker;
  const std::vector<pid_t> below = descendants(worker, processes);
  if (below.empty()) return worker;
  std::vector<WorkCandidate> candidates{
      {.pid = worker, .parent = 0, .started = 0, .only_starts = only_starts_programs(worker)}};
  for (const pid_t pid : below) {
    const std::optional<ProcessEntry> process = read_process(pid);
    if (!process || process->has_ended()) continue;
    candidates.push_back({.pid = pid,
                          .parent = process->parent,
                          .started = start_of(pid),
                          .has_torch = has_torch(pid),
                          .only_starts = only_starts_programs(pid)});
  }
  return choose_work_process(worker, candidates);
}

}  // namespace ddprun::launcher::why
