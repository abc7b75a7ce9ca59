#include "worker/runtime/comm/shm/segment.h"

#include "rendezvous/base/check.h"
#include "worker/runtime/comm/shm/round_up.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <random>

namespace ddprun::runtime::shm {
namespace {

/// MADV_POPULATE_WRITE of Linux 5.14, which older headers do not name.
constexpr int kPopulateWrite = 23;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// The first bytes of the segment: who opens it checks that it is the one the address meant.
struct Id {
  std::uint64_t magic;
  std::uint64_t nonce;
  SegmentShape shape;
};
constexpr std::uint64_t kMagic = 0x32306d6873706464;  // "ddpshm02"

std::uint64_t random_nonce() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32U | device();
}

/// A file beyond RLIMIT_FSIZE would end the process by SIGXFSZ, so the limit is asked first.
std::size_t file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t address_space_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace

std::string SegmentAddress::to_text() const {
  return fmt::format("{} {} {} {} {:016x}", host, owner.pid, owner.start_time, fd, nonce);
}

Result<SegmentAddress> SegmentAddress::parse(const std::string& text) {
  SegmentAddress address;
  std::array<char, 256> host{};
  if (std::sscanf(text.c_str(), "%255s %d %" SCNu64 " %d %" SCNx64, host.data(), &address.owner.pid,
                  &address.owner.start_time, &address.fd, &address.nonce) != 5) {
    return Error(ErrorCode::kCorrupt, fmt::format("\"{}\" is not the address of a shared segment", text));
  }
  address.host = host.data();
  return address;
}

Segment::Layout Segment::lay_out(const SegmentShape& shape) {
  const auto ranks = static_cast<std::size_t>(shape.size);
  Layout layout{};
  std::size_t end = round_up(sizeof(Id), kCacheLine);
  const auto place = [&end](std::size_t bytes, std::size_t alignment) {
    const std::size_t offset = round_up(end, alignment);
    end = offset + bytes;
    return offset;
  };
  layout.sleep = place(sizeof(SleepState), kCacheLine);
  layout.end_told_by = place(sizeof(std::atomic<std::uint32_t>), kCacheLine);
  layout.failures = place(ranks * sizeof(Failure), kCacheLine);
  layout.ranks = place(ranks * sizeof(RankState), kCacheLine);
  layout.posts = place(2 * ranks * sizeof(Post), 2 * kCacheLine);
  layout.descriptions = place(2 * ranks * sizeof(Description), kCacheLine);
  layout.counts = place(4 * ranks * ranks * sizeof(std::uint64_t), kCacheLine);
  layout.channel_headers = place(ranks * ranks * sizeof(ChannelHeader), kCacheLine);
  layout.slots = place(2 * ranks * shape.slot_bytes, kPage);
  layout.rings = place(ranks * ranks * shape.channel_bytes, kPage);
  layout.arenas = place(ranks * shape.arena_bytes, kHugePage);
  layout.total = round_up(end, kHugePage);
  return layout;
}

Segment::Segment(const SegmentShape& shape, UniqueFd fd, std::byte* base, std::uint64_t nonce)
    : shape_(shape), layout_(lay_out(shape)), fd_(std::move(fd)), base_(base), nonce_(nonce) {}

Segment::~Segment() { ::munmap(base_, layout_.total); }

Result<void> Segment::back(std::size_t offset, std::size_t bytes) {
  // Populating goes through the mapping and so gets huge pages; kernels before 5.14 do not know it.
  const std::size_t start = offset / kPage * kPage;
  if (::madvise(base_ + start, offset + bytes - start, kPopulateWrite) == 0) return ok();
  int error = errno == EINVAL ? EINTR : errno;
  while (error == EINTR)
    error = ::posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (error == 0) return ok();
  return os_error(fmt::format("cannot get {} bytes of shared memory for {} ranks", bytes, shape_.size),
                  error);
}

Result<std::shared_ptr<Segment>> Segment::map(const SegmentShape& shape, UniqueFd fd, std::uint64_t nonce) {
  const Layout layout = lay_out(shape);
  void* const base =
      ::mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED)
    return os_error(fmt::format("mmap of {} bytes of shared memory", layout.total), errno);
  ::madvise(base, layout.total, MADV_DONTDUMP);
  // Fewer page faults and TLB misses where the kernel offers it (shmem_enabled=advise); not needed to be
  // right.
  ::madvise(static_cast<std::byte*>(base) + layout.slots / kHugePage * kHugePage, layout.total - layout.slots,
            MADV_HUGEPAGE);
  return std::shared_ptr<Segment>(new Segment(shape, std::move(fd), static_cast<std::byte*>(base), nonce));
}

Result<std::shared_ptr<Segment>> Segment::create(const SegmentShape& wanted) {
  DDPRUN_CHECK(wanted.size >= 1, "a group has at least one rank");
  if (wanted.size > kMaxRanks) {
    return Error(
        ErrorCode::kUnavailable,
        fmt::format("{} ranks on one host, but shared memory collectives are made for at most {}; use gloo",
                    wanted.size, kMaxRanks));
  }
  SegmentShape shape = wanted;
  // At least a cache line for every rank in a slot, for what differs from peer to peer.
  shape.slot_bytes =
      round_up(std::max(shape.slot_bytes, static_cast<std::size_t>(shape.size) * kCacheLine), kPage);
  shape.channel_bytes = round_up(shape.channel_bytes, kPage);
  shape.arena_bytes = round_up(shape.arena_bytes, kHugePage);
  const std::size_t limit = std::min(file_size_limit(), address_space_limit() / 2);
  while (lay_out(shape).total > limit && shape.arena_bytes > 0)
    shape.arena_bytes = shape.arena_bytes / 2 / kHugePage * kHugePage;
  if (lay_out(shape).total > limit) {
    return Error(ErrorCode::kOs,
                 fmt::format("a shared segment for {} ranks needs {} bytes, but ulimit -f or -v allows {}; "
                             "raise the limit, or use gloo",
                             shape.size, lay_out(shape).total, limit));
  }

  UniqueFd fd(::memfd_create("ddprun", MFD_CLOEXEC));
  if (!fd) return os_error("memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(lay_out(shape).total)) != 0) {
    return os_error(fmt::format("ftruncate of shared memory to {} bytes", lay_out(shape).total), errno);
  }
  const std::uint64_t nonce = random_nonce();
  auto segment = map(shape, std::move(fd), nonce);
  if (!segment) return segment.error();
  if (auto backed = (*segment)->back(0, (*segment)->layout_.rings); !backed) return backed.error();
  *(*segment)->at<Id>(0) = Id{.magic = kMagic, .nonce = nonce, .shape = shape};
  return segment;
}

Result<SegmentAddress> Segment::address() const {
  auto host = host_key();
  if (!host) return host.error();
  auto owner = this_process();
  if (!owner) return owner.error();
  return SegmentAddress{.host = *host, .owner = *owner, .fd = fd_.get(), .nonce = nonce_};
}

Result<std::shared_ptr<Segment>> Segment::open(const SegmentAddress& address) {
  auto host = host_key();
  if (!host) return host.error();
  if (*host != address.host) {
    return Error(ErrorCode::kUnavailable,
                 fmt::format("this process is on another host or in another pid namespace ({}) than "
                             "the one that made the segment ({})",
                             *host, address.host));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", address.owner.pid, address.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return os_error(fmt::format("cannot open the shared segment {}", path), errno);
  Id id{};
  const ssize_t got = ::pread(fd.get(), &id, sizeof(id), 0);
  if (got != static_cast<ssize_t>(sizeof(id)) || id.magic != kMagic || id.nonce != address.nonce) {
    return Error(
        ErrorCode::kUnavailable,
        fmt::format("{} is not the shared segment that was announced; has its creator (pid {}) ended?", path,
                    address.owner.pid));
  }
  return map(id.shape, std::move(fd), id.nonce);
}

bool Segment::end_group(int rank, const Failure& failure) const {
  std::atomic<std::uint32_t>& teller = end_told_by();
  if (teller.load(std::memory_order_acquire) != 0) return false;
  at<Failure>(layout_.failures)[rank] = failure;
  std::uint32_t nobody = 0;
  return teller.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank) + 1,
                                        std::memory_order_acq_rel);
}

Result<void> Segment::reserve_channel(int from, int to) {
  return back(ring_offset(from, to), shape_.channel_bytes);
}

Result<void> Segment::reserve_arena(int rank, std::size_t offset, std::size_t bytes) {
  const std::size_t start = layout_.arenas + static_cast<std::size_t>(rank) * shape_.arena_bytes + offset;
  return back(start, bytes);
}

}  // namespace ddprun::runtime::shm
