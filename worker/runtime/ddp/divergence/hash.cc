#include "worker/runtime/ddp/divergence/hash.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>

namespace ddprun::runtime {
namespace {

using Word = std::int32_t;
using Number = std::uint64_t;
using Row = std::array<Word, kRowWords>;

constexpr std::size_t kRowBytes = kRowWords * sizeof(Word);
/// What is hashed at once on a device: 64 MiB, whose products take twice as much.
constexpr std::int64_t kChunkRows = std::int64_t{1} << 16;
/// Rows that are worth a thread.
constexpr std::int64_t kRowsPerTask = 256;

// MurmurHash3's finalizer: a bijection.
constexpr Number kMix[] = {0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53};
constexpr int kMixShift = 33;

constexpr Number mix(Number x) {
  x ^= x >> kMixShift;
  x *= kMix[0];
  x ^= x >> kMixShift;
  x *= kMix[1];
  return x ^ (x >> kMixShift);
}

// Odd, and without a pattern: the fractions of the golden ratio and of √3.
constexpr std::array<Number, 2> kRowStep{0x9e3779b97f4a7c15, 0xbb67ae8584caa73b};

constexpr std::array<std::array<std::int64_t, kRowWords>, 2> make_multipliers() {
  std::array<std::array<std::int64_t, kRowWords>, 2> table{};
  Number count = 0;
  for (auto& lane : table) {
    for (std::int64_t& one : lane)
      one = static_cast<std::int64_t>((mix(++count * kRowStep[0]) >> 34) | (Number{1} << 30));
  }
  return table;
}
constexpr auto kMultipliers = make_multipliers();

TensorHash add(const TensorHash& one, const TensorHash& other) {
  return {one.first + other.first, one.second + other.second};
}

TensorHash hash_row(const Row& words, std::int64_t number) {
  Number first = 0;
  Number second = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int64_t word = words[i];
    first += static_cast<Number>(word * kMultipliers[0][i]);
    second += static_cast<Number>(word * kMultipliers[1][i]);
  }
  const Number place = static_cast<Number>(number) + 1;
  return {mix(first + place * kRowStep[0]), mix(second + place * kRowStep[1])};
}

TensorHash hash_rows(const char* bytes, std::size_t size, std::int64_t begin, std::int64_t end) {
  TensorHash sum;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::size_t offset = static_cast<std::size_t>(row) * kRowBytes;
    Row words{};
    std::memcpy(words.data(), bytes + offset, std::min(kRowBytes, size - offset));
    sum = add(sum, hash_row(words, row));
  }
  return sum;
}

std::int64_t rows_of(std::int64_t words) { return (words + kRowWords - 1) / kRowWords; }

/// The bytes of a contiguous tensor as words, in one dimension; copied only where they are no whole words, or
/// do not begin at one.
at::Tensor words_of(const at::Tensor& tensor) {
  // A tensor of one element is contiguous whatever its strides are, which view({-1}) keeps.
  const at::Tensor flat = tensor.as_strided({tensor.numel()}, {1});
  constexpr std::int64_t kBytes = sizeof(Word);
  const auto item = static_cast<std::int64_t>(flat.itemsize());
  const std::int64_t size = flat.numel() * item;
  if (size % kBytes == 0 && flat.storage_offset() * item % kBytes == 0) return flat.view(at::kInt);
  const at::Tensor padded = at::zeros({(size + kBytes - 1) / kBytes}, flat.options().dtype(at::kInt));
  padded.view(at::kByte).narrow(0, 0, size).copy_(flat.view(at::kByte));
  return padded;
}

at::Tensor mixed(at::Tensor x) {
  const auto fold = [](const at::Tensor& value) {
    // ATen shifts the sign in; the hash does not.
    const auto kept = static_cast<std::int64_t>((Number{1} << (64 - kMixShift)) - 1);
    return value.bitwise_xor(value.bitwise_right_shift(kMixShift).bitwise_and(kept));
  };
  for (const Number factor : kMix) x = fold(x).mul(static_cast<std::int64_t>(factor));
  return fold(x);
}

/// Hashes tensors of one device, a chunk of rows at a time: many small tensors in one go, a large one in
/// several.
class ChunkedHash {
 public:
  ChunkedHash(std::int64_t tensors, const at::Device& device)
      : numbers_(at::TensorOptions(at::kLong).device(device)),
        sums_(at::zeros({2, tensors}, numbers_)),
        padding_(at::zeros({kRowWords}, numbers_.dtype(at::kInt))) {
    for (const auto& lane : kMultipliers)
      multipliers_.push_back(at::tensor(at::ArrayRef<std::int64_t>(lane.data(), lane.size())).to(device));
  }

  void add(std::int64_t tensor, const at::Tensor& words) {
    for (std::int64_t row = 0; row < rows_of(words.numel());) {
      const std::int64_t rows = std::min(rows_of(words.numel()) - row, kChunkRows - rows_);
      const std::int64_t begin = row * kRowWords;
      const std::int64_t length = std::min(rows * kRowWords, words.numel() - begin);
      parts_.push_back(words.narrow(0, begin, length));
      if (length < rows * kRowWords) parts_.push_back(padding_.narrow(0, 0, rows * kRowWords - length));
      tensors_.push_back(tensor);
      offsets_.push_back(row - rows_);
      counts_.push_back(rows);
      row += rows;
      rows_ += rows;
      if (rows_ == kChunkRows) flush();
    }
  }

  std::vector<TensorHash> finish() {
    flush();
    const at::Tensor host = sums_.cpu();
    std::vector<TensorHash> hashes(static_cast<std::size_t>(host.size(1)));
    const auto* const sums = host.const_data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < hashes.size(); ++i)
      hashes[i] = {static_cast<Number>(sums[i]), static_cast<Number>(sums[hashes.size() + i])};
    return hashes;
  }

 private:
  void flush() {
    if (rows_ == 0) return;
    const at::Tensor rows = (parts_.size() == 1 ? parts_.front() : at::cat(parts_)).view({-1, kRowWords});
    const at::Tensor layout =
        at::stack({at::tensor(tensors_), at::tensor(offsets_), at::tensor(counts_)}).to(sums_.device());
    const auto for_each_row = [&](std::int64_t which) {
      return at::repeat_interleave(layout[which], layout[2], 0, rows_);
    };
    const at::Tensor tensor = for_each_row(0);
    const at::Tensor place = at::arange(1, rows_ + 1, numbers_).add_(for_each_row(1));
    for (std::size_t lane = 0; lane < multipliers_.size(); ++lane) {
      const at::Tensor sums = rows.mul(multipliers_[lane]).sum(1);
      const at::Tensor hashes = mixed(sums.add_(place.mul(static_cast<std::int64_t>(kRowStep[lane]))));
      sums_[static_cast<std::int64_t>(lane)].index_add_(0, tensor, hashes);
    }
    parts_.clear();
    tensors_.clear();
    offsets_.clear();
    counts_.clear();
    rows_ = 0;
  }

  at::TensorOptions numbers_;
  at::Tensor sums_;  ///< both sums of every tensor
  at::Tensor padding_;
  std::vector<at::Tensor> multipliers_;
  std::vector<at::Tensor> parts_;
  // Of each part of a tensor in this chunk: whose, the number of its first row less that in the chunk, how
  // many rows.
  std::vector<std::int64_t> tensors_, offsets_, counts_;
  std::int64_t rows_ = 0;
};

/// What is hashed of a tensor: its elements in logical order.
at::Tensor plain(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    throw Exception(ErrorCode::kConfig, fmt::format("content_hash: expected a dense tensor, got a {} one",
                                                    tensor.is_quantized() ? "quantized" : "sparse"));
  }
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

TensorHash with_layout(TensorHash hash, const at::Tensor& tensor) {
  hash = combine(hash, c10::toString(tensor.scalar_type()));
  for (const std::int64_t size : tensor.sizes()) {
    const auto number = static_cast<Number>(size);
    hash = combine(hash, TensorHash{number, number});
  }
  return hash;
}

}  // namespace

std::int64_t multiplier(int lane, std::int64_t column) {
  return kMultipliers.at(static_cast<std::size_t>(lane)).at(static_cast<std::size_t>(column));
}

TensorHash hash_on_host(const at::Tensor& tensor) {
  const auto size = static_cast<std::int64_t>(tensor.nbytes());
  const std::int64_t rows = rows_of((size + 3) / 4);
  const auto* const bytes = static_cast<const char*>(tensor.const_data_ptr());
  const auto some = [&](std::int64_t begin, std::int64_t end, const TensorHash& before) {
    return add(before, hash_rows(bytes, static_cast<std::size_t>(size), begin, end));
  };
  return at::parallel_reduce(0, rows, kRowsPerTask, TensorHash{}, some, add);
}

std::vector<TensorHash> hash_by_aten(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return {};
  const at::NoGradGuard no_grad;
  ChunkedHash chunked(static_cast<std::int64_t>(tensors.size()), tensors.front().device());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    chunked.add(static_cast<std::int64_t>(i), words_of(tensors[i]));
  return chunked.finish();
}

std::vector<TensorHash> hash_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<TensorHash> hashes(tensors.size());
  std::map<std::string, std::vector<std::size_t>> by_device;
  for (std::size_t i = 0; i < tensors.size(); ++i) by_device[tensors[i].device().str()].push_back(i);
  for (const auto& [device, indices] : by_device) {
    const bool is_host = tensors[indices.front()].is_cpu();
    std::vector<at::Tensor> others;
    for (const std::size_t i : indices) {
      const at::Tensor tensor = plain(tensors[i]);
      if (is_host) {
        hashes[i] = hash_on_host(tensor);
      } else {
        others.push_back(tensor);
      }
    }
    if (is_host) continue;
    const std::vector<TensorHash> found = hash_by_aten(others);
    for (std::size_t i = 0; i < indices.size(); ++i) hashes[indices[i]] = found[i];
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) hashes[i] = with_layout(hashes[i], tensors[i]);
  return hashes;
}

TensorHash combine(const TensorHash& hash, const TensorHash& more) {
  return {mix(std::rotl(hash.first, 1) + mix(more.first + kRowStep[0])),
          mix(std::rotl(hash.second, 1) + mix(more.second + kRowStep[1]))};
}

TensorHash combine(const TensorHash& hash, std::string_view text) {
  Number fnv = 14695981039346656037ULL;  // FNV-1a
  for (const char c : text) fnv = (fnv ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return combine(hash, TensorHash{fnv, mix(fnv + text.size())});
}

}  // namespace ddprun::runtime

namespace ddprun {

TensorHash content_hash(const at::Tensor& tensor) { return runtime::hash_tensors({tensor}).front(); }

}  // namespace ddprun
