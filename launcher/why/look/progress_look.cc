#include "launcher/why/look/progress_look.h"

#include "launcher/why/look/proc_look.h"
#include "rendezvous/base/unique_fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// Copied word by word, until it is the same twice.
template <std::size_t Words>
std::string read_words(const SharedText<Words>& text) {
  std::array<std::uint64_t, Words> words{};
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::array<std::uint64_t, Words> again{};
    for (std::size_t i = 0; i < Words; ++i) again[i] = text[i].load(std::memory_order_relaxed);
    if (std::exchange(words, again) == again && attempt > 0) break;
  }
  const auto* const bytes = reinterpret_cast<const char*>(words.data());
  return {bytes, ::strnlen(bytes, sizeof words)};
}

constexpr const char* kBackend = "shm";

/// Nullopt: its rank has written another one there meanwhile.
std::optional<Collective> read_line(const ProgressPage& page, std::uint64_t id) {
  const CollectiveLine& line = page.lines[id % ProgressPage::kLines];
  if (line.id.load(std::memory_order_acquire) != id) return std::nullopt;
  const auto group =
      std::min<std::size_t>(line.group.load(std::memory_order_relaxed), ProgressPage::kGroups - 1);
  const std::int64_t elements = line.elements.load(std::memory_order_relaxed);
  const int dtype = line.dtype.load(std::memory_order_relaxed);
  constexpr std::int64_t kMost = std::int64_t{1} << 56;  // of which sums and products are still numbers
  Collective entry{.group = read_words(page.groups[group]),
                   .backend = kBackend,
                   .sequence = line.sequence.load(std::memory_order_relaxed),
                   .id = id,
                   .operation = read_words(line.operation),
                   .is_peer = line.peer.load(std::memory_order_relaxed) != ProgressPage::kNoPeer,
                   .peer = std::max(line.peer.load(std::memory_order_relaxed), -1),
                   .sizes = {},
                   .types = {},
                   .created_ns = line.entered_ns.load(std::memory_order_relaxed),
                   .is_over = line.pending.load(std::memory_order_relaxed) == 0};
  if (entry.sequence < 0 || entry.created_ns < 0) return std::nullopt;
  if (elements > 0 && elements < kMost) {
    entry.sizes = {elements};
    entry.types = {dtype};
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (line.id.load(std::memory_order_relaxed) != id) return std::nullopt;
  return entry;
}

struct OpenPage {
  UniqueFd file;
  std::string path;
};

/// The descriptor of a process that is its page; invalid: it has none.
OpenPage open_page(pid_t pid) {
  // Most processes have none, and their maps say so faster than their descriptors.
  const std::string name = fmt::format("/memfd:{} (deleted)", ProgressPage::kName);
  if (!has_mapped(pid, name)) return {};
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return {};
  while (const dirent* const entry = ::readdir(entries.get())) {
    std::array<char, 64> target{};
    const std::string path = fmt::format("{}/{}", folder, entry->d_name);
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    if (size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == name)
      return {UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path};
  }
  return {};
}

}  // namespace

std::optional<ProgressLook> ProgressLook::find(pid_t pid) {
  const auto [file, path] = open_page(pid);
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(sizeof(ProgressPage)))
    return std::nullopt;
  // What could shrink would kill whoever reads it then.
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return std::nullopt;
  void* const mapped = ::mmap(nullptr, sizeof(ProgressPage), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  ProgressLook look(static_cast<const ProgressPage*>(mapped), path, status.st_ino);
  if (look.page_->magic.load(std::memory_order_acquire) != ProgressPage::kMagic) return std::nullopt;
  return look;
}

ProgressLook::ProgressLook(ProgressLook&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)), path_(std::move(other.path_)), inode_(other.inode_) {}

ProgressLook& ProgressLook::operator=(ProgressLook&& other) noexcept {
  std::swap(page_, other.page_);
  std::swap(path_, other.path_);
  std::swap(inode_, other.inode_);
  return *this;
}

bool ProgressLook::is_current() const {
  struct stat status {};
  return ::stat(path_.c_str(), &status) == 0 && status.st_ino == inode_;
}

ProgressLook::~ProgressLook() {
  if (page_ != nullptr) ::munmap(const_cast<ProgressPage*>(page_), sizeof(ProgressPage));
}

Recorder ProgressLook::recorder(std::size_t most) const {
  const std::uint64_t begun = page_->begun.load(std::memory_order_acquire);
  Recorder recorder{.is_there = true, .problem = {}, .next = begun, .entries = {}};
  const std::uint64_t wanted = std::min({begun, std::uint64_t{ProgressPage::kLines}, std::uint64_t{most}});
  for (std::uint64_t back = wanted; back > 0; --back) {
    if (auto entry = read_line(*page_, begun - back + 1)) recorder.entries.push_back(std::move(*entry));
  }
  return recorder;
}

std::vector<Membership> ProgressLook::memberships() const {
  std::vector<Membership> groups;
  for (const auto& text : page_->groups) {
    if (std::string name = read_words(text); !name.empty()) groups.push_back({.group = std::move(name)});
  }
  const Recorder all = recorder(ProgressPage::kLines);
  const bool is_whole = all.next <= ProgressPage::kLines;
  for (Membership& group : groups) {
    std::int64_t newest = 0;
    for (const Collective& entry : all.entries) {
      if (!entry.is_peer && entry.group == group.group) newest = std::max(newest, entry.sequence);
    }
    if (newest > 0 || is_whole) group.newest[kBackend] = newest;
  }
  std::erase_if(groups, [](const Membership& group) { return group.newest.empty(); });
  return groups;
}

RankProgress ProgressLook::progress() const {
  return {.step = page_->step.load(std::memory_order_relaxed),
          .phase = read_words(page_->phase),
          .beats = page_->beats.load(std::memory_order_relaxed)};
}

}  // namespace ddprun::launcher::why
