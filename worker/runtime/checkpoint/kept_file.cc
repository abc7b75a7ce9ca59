#include "worker/runtime/checkpoint/kept_file.h"

#include "worker/runtime/checkpoint/pickle.h"
#include "worker/runtime/checkpoint/unpickle.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

// The file: a Header, the label, the bytes of the pickle, for each of its storages a Placed, and their bytes, if they
// are not in the KeptTensors; each at a multiple of kKeptAlignment.
struct Header {
  std::atomic<std::uint64_t> size;  ///< of all that is used of the file; 0: there is no whole value
  std::uint64_t label_size;
  std::uint64_t pickle_size;
  std::uint64_t storages;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // another process reads it

struct Placed {
  std::uint64_t size;
  std::uint64_t place;  ///< in the KeptTensors, or kHere
};
constexpr std::uint64_t kHere = ~std::uint64_t{0};

/// A file that holds so many times less than before gives memory back.
constexpr std::size_t kMuch = 8;

constexpr std::size_t kHeaderSize = kKeptAlignment;
static_assert(sizeof(Header) <= kHeaderSize);

Header* header_of(const KeptMapping& all) { return reinterpret_cast<Header*>(all.bytes().data()); }

Error damaged() { return {ErrorCode::kCorrupt, "what is kept in memory is damaged"}; }

}  // namespace

Result<KeptFile> KeptFile::open(const std::string& path) {
  Result<KeptMemory> memory = KeptMemory::open(path);
  if (!memory) return memory.error();
  Result<KeptMapping> all = memory->map_all();
  if (all && all->bytes().size() < kHeaderSize) all = memory->map(0, kHeaderSize);
  if (!all) return all.error();
  return KeptFile(std::move(*memory), std::move(*all));
}

void KeptFile::clear() {
  written_ = 0;
  header_of(all_)->size.store(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the first byte of the next value
}

Result<void> KeptFile::write(const std::string& label, const PtValue& value, const KeptTensors* in_place) {
  clear();
  const Result<Pickled> pickled = pickle(value);
  if (!pickled) return pickled.error();
  std::vector<Placed> placed;
  for (const at::Tensor& storage : pickled->storages) {
    const auto place = in_place == nullptr ? std::nullopt : in_place->place_of(storage.const_data_ptr());
    placed.push_back({storage.nbytes(), place.value_or(kHere)});
  }
  const std::size_t placed_size = placed.size() * sizeof(Placed);
  std::size_t size =
      kHeaderSize + kept_size(label.size()) + kept_size(pickled->bytes.size()) + kept_size(placed_size);
  for (const Placed& one : placed) size += one.place == kHere ? kept_size(one.size) : 0;
  if (size > reserved_) {
    Result<KeptMapping> larger = memory_.map(0, std::max(size, all_.bytes().size()));
    if (!larger) return larger.error();
    all_ = std::move(*larger);
    reserved_ = all_.bytes().size();
  } else if (size < reserved_ / kMuch) {  // it has held tensors that are in place by now
    memory_.give_back_behind(size);
    reserved_ = size;
  }
  std::byte* at = all_.bytes().data() + kHeaderSize;
  const auto put = [&at](const void* bytes, std::size_t count) {
    if (count > 0) std::memcpy(at, bytes, count);
    at += kept_size(count);
  };
  put(label.data(), label.size());
  put(pickled->bytes.data(), pickled->bytes.size());
  put(placed.data(), placed_size);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (placed[i].place == kHere) put(pickled->storages[i].const_data_ptr(), placed[i].size);
  }
  Header* const header = header_of(all_);
  header->label_size = label.size();
  header->pickle_size = pickled->bytes.size();
  header->storages = placed.size();
  written_ = size;
  return ok();
}

void KeptFile::confirm() { header_of(all_)->size.store(written_, std::memory_order_release); }

std::span<const std::byte> KeptFile::bytes() const {
  const std::uint64_t size = header_of(all_)->size.load(std::memory_order_acquire);
  return size <= all_.bytes().size() ? all_.bytes().first(size) : std::span<const std::byte>();
}

std::string KeptFile::label() const {
  const std::span<const std::byte> whole = bytes();
  if (whole.size() < kHeaderSize) return {};
  const std::uint64_t size = reinterpret_cast<const Header*>(whole.data())->label_size;
  if (size > whole.size() - kHeaderSize) return {};
  return {reinterpret_cast<const char*>(whole.data()) + kHeaderSize, size};
}

Result<PtValue> KeptFile::parse(std::span<const std::byte> bytes, std::span<const std::byte> in_place) {
  if (bytes.size() < kHeaderSize) return damaged();
  const auto* const header = reinterpret_cast<const Header*>(bytes.data());
  const std::uint64_t count = header->storages;
  std::span<const std::byte> left = bytes.subspan(kHeaderSize);
  const auto take = [&left](std::uint64_t size) -> std::optional<std::span<const std::byte>> {
    if (size > left.size() || kept_size(size) > left.size()) return std::nullopt;
    const std::span<const std::byte> taken = left.first(size);
    left = left.subspan(kept_size(size));
    return taken;
  };
  if (!take(header->label_size)) return damaged();
  const auto pickled = take(header->pickle_size);
  if (!pickled || count > left.size()) return damaged();
  const auto table = take(count * sizeof(Placed));
  if (!table) return damaged();
  std::vector<std::span<const std::byte>> storages;
  for (std::uint64_t i = 0; i < count; ++i) {
    Placed placed{};
    std::memcpy(&placed, table->data() + i * sizeof placed, sizeof placed);
    if (placed.place != kHere) {
      if (placed.size > in_place.size() || placed.place > in_place.size() - placed.size) return damaged();
      storages.push_back(in_place.subspan(placed.place, placed.size));
      continue;
    }
    const auto storage = take(placed.size);
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
