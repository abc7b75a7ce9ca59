#include "worker/runtime/checkpoint/pickle.h"

#include "rendezvous/base/printable.h"
#include "rendezvous/base/utf8.h"
#include "worker/runtime/checkpoint/pickle_opcodes.h"
#include "worker/runtime/checkpoint/storage_type.h"

#include <ATen/ATen.h>
#include <c10/util/bit_cast.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace ddprun::runtime {
namespace {

/// Of two tensors that begin at the same place. A conjugate or an imaginary part may be a view that differs in a bit
/// alone.
bool is_read_alike(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.sizes() == other.sizes() &&
         one.strides() == other.strides() && one.is_conj() == other.is_conj() &&
         one.is_neg() == other.is_neg();
}

// Nearly all are so already, and each operation of ATen takes longer than all else that is done with a small one.
at::Tensor as_stored(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return tensor;
  return tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
}

/// Emits opcodes into `out`. Nothing is memoised: torch.load needs no memo, and checkpoints repeat only short
/// names.
class Pickler {
 public:
  Result<Pickled> run(const PtValue& value) {
    op(Op::kProto).byte(2);
    visit(value);
    op(Op::kStop);
    if (error_) return *error_;
    return Pickled{std::move(out_), std::move(storages_)};
  }

 private:
  Pickler& op(Op code) { return byte(static_cast<std::uint8_t>(code)); }
  Pickler& byte(std::uint8_t value) {
    out_.push_back(static_cast<char>(value));
    return *this;
  }
  Pickler& little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
    return *this;
  }

  void visit(const PtValue& value) {
    std::visit([this](const auto& alternative) { put(alternative); }, value.alternatives());
  }

  void put(std::monostate) { op(Op::kNone); }
  void put(bool value) { op(value ? Op::kNewTrue : Op::kNewFalse); }
  void put(std::int64_t value) {
    if (value >= 0 && value < 256) {
      op(Op::kBinInt1).byte(static_cast<std::uint8_t>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      op(Op::kBinInt).little_endian(static_cast<std::uint64_t>(value), 4);
    } else {
      op(Op::kLong1).byte(8).little_endian(static_cast<std::uint64_t>(value), 8);
    }
  }
  void put(double value) {
    op(Op::kBinFloat);
    const auto bits = c10::bit_cast<std::uint64_t>(value);
    for (int i = 7; i >= 0; --i) byte(static_cast<std::uint8_t>(bits >> (8 * i)));
  }
  void put(const std::string& value) {
    if (is_utf8(value)) return text(value);
    constexpr std::size_t kMostShown = 80;
    error_ = Error(
        ErrorCode::kConfig,
        fmt::format("the text \"{}\" of {} bytes is no UTF-8, and Python could not open the file; keep bytes "
                    "in a tensor of uint8",
                    printable(value, kMostShown), value.size()));
  }
  void text(std::string_view value) {
    op(Op::kBinUnicode).little_endian(value.size(), 4);
    out_.append(value);
  }
  void put(const PtList& list) {
    op(Op::kEmptyList);
    if (list.items.empty()) return;
    op(Op::kMark);
    for (const PtValue& item : list.items) visit(item);
    op(Op::kAppends);
  }
  void put(const PtTuple& tuple) {
    op(Op::kMark);
    for (const PtValue& item : tuple.items) visit(item);
    op(Op::kTuple);
  }
  void put(const PtDict& dict) {
    if (dict.ordered) {
      empty_ordered_dict();
    } else {
      op(Op::kEmptyDict);
    }
    if (dict.entries.empty()) return;
    op(Op::kMark);
    for (const auto& [key, value] : dict.entries) {
      visit(key);
      visit(value);
    }
    op(Op::kSetItems);
  }

  void global(std::string_view module, std::string_view name) {
    op(Op::kGlobal);
    out_.append(module).append("\n").append(name).append("\n");
  }
  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    op(Op::kEmptyTuple).op(Op::kReduce);
  }
  void sizes(at::IntArrayRef values) {
    op(Op::kMark);
    for (const std::int64_t value : values) put(value);
    op(Op::kTuple);
  }

  // torch._utils._rebuild_tensor_v2(persistent storage, offset, size, stride, requires_grad, backward_hooks)
  void put(const at::Tensor& tensor) {
    if (!tensor.defined()) return put(std::monostate{});
    const auto type = tensor.layout() == at::kStrided ? storage_name(tensor.scalar_type()) : std::nullopt;
    if (!type) {
      error_ = Error(ErrorCode::kConfig,
                     fmt::format("a tensor of type {} and layout {} cannot be stored in a .pt file",
                                 at::toString(tensor.scalar_type()),
                                 tensor.layout() == at::kStrided ? "strided" : "sparse"));
      return;
    }
    const std::size_t key = store(tensor);
    const at::Tensor& stored = storages_[key];
    global("torch._utils", "_rebuild_tensor_v2");
    op(Op::kMark).op(Op::kMark);
    text("storage");
    global("torch", *type);
    text(std::to_string(key));
    text("cpu");
    put(stored.numel());
    op(Op::kTuple).op(Op::kBinPersId);
    put(std::int64_t{0});
    sizes(stored.sizes());
    sizes(stored.strides());
    put(false);
    empty_ordered_dict();
    op(Op::kTuple).op(Op::kReduce);
  }

  /// The same tensor, met again (tied weights), is stored once.
  std::size_t store(const at::Tensor& tensor) {
    const auto [first, last] = stored_.equal_range(tensor.const_data_ptr());
    const auto met = std::find_if(
        first, last, [&](const auto& stored) { return is_read_alike(stored.second.tensor, tensor); });
    if (met != last) return met->second.key;
    const std::size_t key = storages_.size();
    storages_.push_back(as_stored(tensor));
    stored_.emplace(tensor.const_data_ptr(), Stored{tensor, key});
    return key;
  }

  struct Stored {
    at::Tensor tensor;
    std::size_t key;
  };
  std::string out_;
  std::vector<at::Tensor> storages_;
  std::unordered_multimap<const void*, Stored> stored_;  ///< by memory
  std::optional<Error> error_;
};

}  // namespace

Result<Pickled> pickle(const PtValue& value) { return Pickler().run(value); }

}  // namespace ddprun::runtime
