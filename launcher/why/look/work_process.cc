#include "launcher/why/look/work_process.h"

#include "launcher/process/process_table.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/rank_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

/// The worker and all below it, the nearest first, and of one generation the oldest.
std::vector<const WorkCandidate*> by_nearness(pid_t worker, const std::vector<WorkCandidate>& processes) {
  std::vector<const WorkCandidate*> found;
  for (const WorkCandidate& process : processes) {
    if (process.pid == worker) found.push_back(&process);
  }
  for (std::size_t begin = 0; begin < found.size();) {
    const std::size_t end = found.size();
    for (const WorkCandidate& process : processes) {
      const bool is_child = std::any_of(found.begin() + static_cast<std::ptrdiff_t>(begin),
                                        found.begin() + static_cast<std::ptrdiff_t>(end),
                                        [&](const auto* parent) { return parent->pid == process.parent; });
      if (is_child && std::find(found.begin(), found.end(), &process) == found.end())
        found.push_back(&process);
    }
    std::stable_sort(found.begin() + static_cast<std::ptrdiff_t>(end), found.end(),
                     [](const auto* a, const auto* b) { return a->started < b->started; });
    begin = end;
  }
  return found;
}

/// From process to process, as long as one only starts programs, and has one child.
const WorkCandidate* behind_shells(const std::vector<const WorkCandidate*>& family) {
  const WorkCandidate* work = family.front();
  for (std::size_t depth = 0; work->only_starts && depth < family.size(); ++depth) {
    const auto is_child = [&](const WorkCandidate* process) { return process->parent == work->pid; };
    if (std::count_if(family.begin(), family.end(), is_child) != 1) break;
    work = *std::find_if(family.begin(), family.end(), is_child);
  }
  return work;
}

bool has_recorded(pid_t pid) {
  RankRecord record(pid);
  record.search();
  return record.has_own();
}

/// Whether it is in a process group itself: what a child of it has recorded is of another job's then.
bool is_rank(pid_t pid) {
  RankRecord record(pid);
  record.search();
  return record.has_own() || !record.memberships().empty();
}

}  // namespace

pid_t choose_work_process(pid_t worker, const std::vector<WorkCandidate>& processes) {
  const std::vector<const WorkCandidate*> family = by_nearness(worker, processes);
  if (family.empty()) return worker;
  for (const auto is_it : {&WorkCandidate::records, &WorkCandidate::has_torch}) {
    const auto found =
        std::find_if(family.begin(), family.end(), [&](const auto* process) { return process->*is_it; });
    if (found != family.end()) return (*found)->pid;
  }
  return behind_shells(family)->pid;
}

bool has_torch(pid_t pid) { return has_mapped(pid, "/libtorch_cpu.so"); }

pid_t find_work_process(pid_t worker, const std::vector<ProcessEntry>& processes) {
  const bool worker_has_torch = has_torch(worker);
  if (worker_has_torch && is_rank(worker)) return worker;
  const std::vector<pid_t> below = descendants(worker, processes);
  if (below.empty()) return worker;
  std::vector<WorkCandidate> candidates{{.pid = worker,
                                         .parent = 0,
                                         .started = 0,
                                         .has_torch = worker_has_torch,
                                         .only_starts = only_starts_programs(worker)}};
  for (const pid_t pid : below) {
    const std::optional<ProcessEntry> process = read_process(pid);
    if (!process || process->has_ended()) continue;
    candidates.push_back({.pid = pid,
                          .parent = process->parent,
                          .started = start_of(pid),
                          .has_torch = has_torch(pid),
                          .only_starts = only_starts_programs(pid)});
  }
  // The first that has recorded is the one: what those behind it have done need not be read.
  for (const WorkCandidate* const process : by_nearness(worker, candidates)) {
    if (process->pid != worker && process->has_torch && has_recorded(process->pid)) return process->pid;
  }
  return choose_work_process(worker, candidates);
}

int count_siblings(pid_t worker, pid_t work, const std::vector<ProcessEntry>& processes) {
  if (work == worker) return 0;
  std::vector<pid_t> known = descendants(work, processes);
  known.push_back(work);
  const std::vector<pid_t> below = descendants(worker, processes);
  return static_cast<int>(std::count_if(below.begin(), below.end(), [&](pid_t pid) {
    return std::find(known.begin(), known.end(), pid) == known.end() && has_torch(pid) && has_recorded(pid);
  }));
}

}  // namespace ddprun::launcher::why
