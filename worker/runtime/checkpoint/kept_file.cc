#include "worker/runtime/checkpoint/kept_file.h"

#include "rendezvous/base/env_contract.h"
#include "worker/runtime/checkpoint/pickle.h"
#include "worker/runtime/checkpoint/unpickle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

// The file: a Header, the label, the bytes of the pickle, the sizes of its storages as std::uint64_t, and their
// bytes; each at a multiple of kKeptAlignment.
struct Header {
  std::atomic<std::uint64_t> size;  ///< of all that is used of the file; 0: there is no whole value
  std::uint64_t label_size;
  std::uint64_t pickle_size;
  std::uint64_t storages;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // another process reads it

constexpr std::size_t kKeptAlignment = 64;

std::size_t aligned(std::size_t size) {
  return (size + kKeptAlignment - 1) / kKeptAlignment * kKeptAlignment;
}

constexpr std::size_t kHeaderSize = kKeptAlignment;
static_assert(sizeof(Header) <= kHeaderSize);

Error damaged() { return {ErrorCode::kCorrupt, "what is kept in memory is damaged"}; }

}  // namespace

Result<KeptFile> KeptFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Error(ErrorCode::kNotFound, "there is no " + path);
  if (!fd) return os_error("cannot open " + path, errno);
  // The variable that names it may have outlived its launcher, and the path lead to something else by now.
  std::error_code error;
  const std::string target =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd.get()), error).string();
  if (!target.starts_with(fmt::format("/memfd:{}", kKeptMemoryName)))
    return Error(ErrorCode::kConfig, path + " is not memory that ddprun holds");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return os_error("cannot look at " + path, errno);
  KeptFile file(path, std::move(fd));
  if (Result<void> done = file.reserve(std::max<std::size_t>(status.st_size, kHeaderSize)); !done)
    return done.error();
  return file;
}

KeptFile::KeptFile(KeptFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      memory_(std::exchange(other.memory_, {})),
      written_(std::exchange(other.written_, 0)) {}

KeptFile::~KeptFile() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

Result<void> KeptFile::reserve(std::size_t size) {
  if (size <= memory_.size()) return ok();
  // Without it, memory that is not there would be found out by a signal, at the first byte that is written.
  int failed = 0;
  do {
    failed = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return os_error(fmt::format("cannot have {} bytes of memory in {}", size, path_), errno);
  void* start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path_, errno);
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  memory_ = std::span(static_cast<std::byte*>(start), size);
  return ok();
}

void KeptFile::clear() {
  written_ = 0;
  reinterpret_cast<Header*>(memory_.data())->size.store(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the first byte of the next value
}

Result<void> KeptFile::write(const std::string& label, const PtValue& value) {
  clear();
  const Result<Pickled> pickled = pickle(value);
  if (!pickled) return pickled.error();
  std::vector<std::uint64_t> sizes;
  for (const at::Tensor& storage : pickled->storages) sizes.push_back(storage.nbytes());
  const std::size_t sizes_size = sizes.size() * sizeof(std::uint64_t);
  std::size_t size =
      kHeaderSize + aligned(label.size()) + aligned(pickled->bytes.size()) + aligned(sizes_size);
  for (const std::uint64_t one : sizes) size += aligned(one);
  if (Result<void> done = reserve(size); !done) return done;
  std::byte* at = memory_.data() + kHeaderSize;
  const auto put = [&at](const void* bytes, std::size_t count) {
    if (count > 0) std::memcpy(at, bytes, count);
    at += aligned(count);
  };
  put(label.data(), label.size());
  put(pickled->bytes.data(), pickled->bytes.size());
  put(sizes.data(), sizes_size);
  for (const at::Tensor& storage : pickled->storages) put(storage.const_data_ptr(), storage.nbytes());
  auto* const header = reinterpret_cast<Header*>(memory_.data());
  header->label_size = label.size();
  header->pickle_size = pickled->bytes.size();
  header->storages = sizes.size();
  written_ = size;
  return ok();
}

void KeptFile::confirm() {
  reinterpret_cast<Header*>(memory_.data())->size.store(written_, std::memory_order_release);
}

std::span<const std::byte> KeptFile::bytes() const {
  const std::uint64_t size =
      reinterpret_cast<const Header*>(memory_.data())->size.load(std::memory_order_acquire);
  return size <= memory_.size() ? memory_.first(size) : std::span<const std::byte>();
}

std::string KeptFile::label() const {
  const std::span<const std::byte> whole = bytes();
  if (whole.size() < kHeaderSize) return {};
  const std::uint64_t size = reinterpret_cast<const Header*>(whole.data())->label_size;
  if (size > whole.size() - kHeaderSize) return {};
  return {reinterpret_cast<const char*>(whole.data()) + kHeaderSize, size};
}

Result<PtValue> KeptFile::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderSize) return damaged();
  const auto* const header = reinterpret_cast<const Header*>(bytes.data());
  const std::uint64_t count = header->storages;
  std::span<const std::byte> left = bytes.subspan(kHeaderSize);
  const auto take = [&left](std::uint64_t size) -> std::optional<std::span<const std::byte>> {
    if (size > left.size() || aligned(size) > left.size()) return std::nullopt;
    const std::span<const std::byte> taken = left.first(size);
    left = left.subspan(aligned(size));
    return taken;
  };
  if (!take(header->label_size)) return damaged();
  const auto pickled = take(header->pickle_size);
  if (!pickled || count > left.size()) return damaged();
  const auto sizes = take(count * sizeof(std::uint64_t));
  if (!sizes) return damaged();
  std::vector<std::span<const std::byte>> storages;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, sizes->data() + i * sizeof size, sizeof size);
    const auto storage = take(size);
    if (!storage) return damaged();
    storages.push_back(*storage);
  }
  return unpickle(*pickled, [&](const std::string& key) -> Result<std::span<const std::byte>> {
    std::size_t place = storages.size();
    std::from_chars(key.data(), key.data() + key.size(), place);
    if (place >= storages.size()) return damaged();
    return storages[place];
  });
}

}  // namespace ddprun::runtime
