#include "worker/runtime/comm/backend/progress.h"

#include "rendezvous/base/unique_fd.h"
#include <ddprun/progress.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace ddprun::runtime {
namespace {

void* g_shared = nullptr;  // what a child of fork has to give up

void leave_page_in_child() {
  ::mmap(g_shared, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
}

/// Null where the kernel gives none.
void* map_shared() {
  UniqueFd file(::memfd_create(ProgressPage::kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Who maps it as well must not be killed by its shrinking.
  if (!file || ::ftruncate(file.get(), sizeof(ProgressPage)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return nullptr;
  void* const mapped =
      ::mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return nullptr;
  (void)file.release();  // by which it is found, as long as the process lives
  g_shared = mapped;
  ::pthread_atfork(nullptr, nullptr, leave_page_in_child);
  return mapped;
}

ProgressPage& make_page() {
  void* const shared = map_shared();
  auto* const page = shared != nullptr ? new (shared) ProgressPage() : new ProgressPage();
  page->step.store(ProgressPage::kNoStep, std::memory_order_relaxed);
  page->magic.store(ProgressPage::kMagic, std::memory_order_release);
  return *page;
}

template <std::size_t Words>
void write_text(SharedText<Words>& text, std::string_view bytes) {
  std::array<std::uint64_t, Words> words{};
  std::memcpy(words.data(), bytes.data(), std::min(bytes.size(), sizeof words));
  for (std::size_t i = 0; i < Words; ++i) text[i].store(words[i], std::memory_order_relaxed);
}

std::int64_t about_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);  // a third of the cost of the exact one
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Never 0, and another one for the collectives before and after it in the same line.
std::uint32_t pending(std::uint64_t id) { return static_cast<std::uint32_t>(id << 1U | 1U); }

}  // namespace

Progress& Progress::instance() {
  static Progress& only = *new Progress();
  return only;
}

Progress::Progress() : page_(make_page()) {}

std::uint16_t Progress::add_group(std::string_view name) {
  const std::lock_guard lock(groups_mutex_);
  const auto number =
      static_cast<std::size_t>(std::find(is_taken_.begin(), is_taken_.end(), false) - is_taken_.begin());
  if (number == kNoGroup) return kNoGroup;
  is_taken_[number] = true;
  write_text(page_.groups[number], name);
  return static_cast<std::uint16_t>(number);
}

// The next group of that number counts from 1 again, and is not to be taken for this one.
void Progress::remove_group(std::uint16_t group) {
  if (group >= kNoGroup) return;
  for (CollectiveLine& line : page_.lines) {
    std::uint64_t id = line.id.load(std::memory_order_acquire);
    if (id != CollectiveLine::kBeingWritten && line.group.load(std::memory_order_relaxed) == group)
      line.id.compare_exchange_strong(id, 0, std::memory_order_relaxed);  // unless another has begun there
  }
  std::atomic_thread_fence(std::memory_order_release);  // before its name: no line is read as one without
  const std::lock_guard lock(groups_mutex_);
  write_text(page_.groups[group], {});
  is_taken_[group] = false;
}

std::uint64_t Progress::enter(const Call& call) {
  if (call.group == kNoGroup) return 0;
  const std::uint64_t id = claim_line();
  if (id == 0) return 0;
  CollectiveLine& line = page_.lines[id % ProgressPage::kLines];
  // Before what follows: a reader finds that it is being written, or another id.
  std::atomic_thread_fence(std::memory_order_release);
  line.sequence.store(call.sequence, std::memory_order_relaxed);
  line.entered_ns.store(about_now_ns(), std::memory_order_relaxed);
  line.elements.store(call.elements, std::memory_order_relaxed);
  write_text(line.operation, call.operation);
  line.dtype.store(call.dtype, std::memory_order_relaxed);
  line.group.store(call.group, std::memory_order_relaxed);
  line.peer.store(call.peer, std::memory_order_relaxed);
  line.pending.store(pending(id), std::memory_order_relaxed);
  line.id.store(id, std::memory_order_release);
  return id;
}

// A thread may stand still anywhere here while others begin as many collectives as there are lines, and come to its
// own.
std::uint64_t Progress::claim_line() {
  for (std::size_t attempt = 0; attempt < ProgressPage::kLines; ++attempt) {
    const std::uint64_t id = page_.begun.fetch_add(1, std::memory_order_relaxed) + 1;
    std::atomic<std::uint64_t>& line = page_.lines[id % ProgressPage::kLines].id;
    std::uint64_t before = line.load(std::memory_order_relaxed);
    while (before < id) {  // else a later one has it, or another thread writes it
      if (line.compare_exchange_weak(before, CollectiveLine::kBeingWritten, std::memory_order_acquire,
                                     std::memory_order_relaxed))
        return id;
    }
  }
  return 0;
}

void Progress::leave(std::uint64_t id) {
  if (id == 0) return;
  std::uint32_t mine = pending(id);
  page_.lines[id % ProgressPage::kLines].pending.compare_exchange_strong(mine, 0, std::memory_order_relaxed);
}

void Progress::note_step(std::int64_t step) {
  is_step_noted_.store(true, std::memory_order_relaxed);
  page_.step.store(step, std::memory_order_relaxed);
  note_progress();
}

void Progress::count_step() {
  if (is_step_noted_.load(std::memory_order_relaxed)) return;
  page_.step.store(page_.step.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  note_progress();
}

void Progress::note_phase(std::string_view words) {
  write_text(page_.phase, words.substr(0, sizeof page_.phase - 1));
  note_progress();
}

}  // namespace ddprun::runtime

namespace ddprun {

void note_step(std::int64_t step) { runtime::Progress::instance().note_step(step); }
void note_phase(std::string_view words) { runtime::Progress::instance().note_phase(words); }
void note_progress() { runtime::Progress::instance().note_progress(); }

}  // namespace ddprun
