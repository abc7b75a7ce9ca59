#include "worker/runtime/checkpoint/unpickle.h"

#include "worker/runtime/checkpoint/corrupt.h"
#include "worker/runtime/checkpoint/dict_key.h"
#include "worker/runtime/checkpoint/pickle_opcodes.h"
#include "worker/runtime/checkpoint/storage_type.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace ddprun::runtime {
namespace {

constexpr int kMaxDepth = 200;
// A reference of two bytes may stand for a value and a short text; a checkpoint repeats its keys that way.
constexpr std::size_t kBytesPerByte = 64;
constexpr std::size_t kBytesForAnyFile = std::size_t{64} << 20;
constexpr std::size_t kMaxDimensions = 64;                    ///< PyTorch's own
constexpr std::size_t kMaxMarks = 16;                         ///< of one tensor; two are known
constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;  ///< of 16 bytes, they can be counted in 63 bits

// Pickle shares objects through its memo, and a file may share or nest without end. So objects are nodes of
// an arena, and become values only at the end, where depth is counted and memory is held against the file's
// size.
struct Node;
struct Mark {};
struct Global {
  std::string name;
};
struct Sequence {
  std::vector<Node*> items;
  bool is_tuple = false;
};
struct Mapping {
  std::vector<std::pair<Node*, Node*>> entries;
  bool ordered = false;
};
/// A whole storage: a 1-D tensor.
struct Storage {
  at::Tensor tensor;
};
/// numpy's, which says what an array is of.
struct ArrayType {
  std::string name;
};
/// numpy's, before its content has come.
struct EmptyArray {};
struct Node {
  std::variant<Mark, std::monostate, bool, std::int64_t, double, std::string, at::Tensor, Global, Sequence,
               Mapping, Storage, ArrayType, EmptyArray>
      content;
};

/// Thrown inside this file only, and turned into an Error at its border: the machine has fifty places that
/// may fail.
struct Failure {
  Error error;
};
[[noreturn]] void fail(std::string message) { throw Failure{corrupt(std::move(message))}; }

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const StorageReader& read_storage)
      : bytes_(bytes), read_storage_(read_storage) {}

  PtValue run() {
    while (true) {
      const Op op{take(1)[0]};
      if (op == Op::kStop) break;
      execute(op);
    }
    return to_value(*pop(), 0);
  }

 private:
  std::span<const unsigned char> take(std::size_t count) {
    if (bytes_.size() - position_ < count)
      fail(fmt::format("data.pkl ends early, after {} bytes", bytes_.size()));
    const auto* start = reinterpret_cast<const unsigned char*>(bytes_.data()) + position_;
    position_ += count;
    return {start, count};
  }
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t value = 0;
    const auto taken = take(count);
    for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{taken[i]} << (8 * i);
    return value;
  }
  std::string string(std::size_t size) {
    const auto taken = take(size);
    return {reinterpret_cast<const char*>(taken.data()), size};
  }
  std::string line() {
    std::string text;
    while (true) {
      const char c = static_cast<char>(take(1)[0]);
      if (c == '\n') return text;
      text.push_back(c);
    }
  }

  template <class T>
  void push(T content) {
    arena_.push_back(Node{std::move(content)});
    stack_.push_back(&arena_.back());
  }
  Node* pop() {
    Node* node = top();
    stack_.pop_back();
    return node;
  }
  Node* top() {
    if (stack_.empty() || std::holds_alternative<Mark>(stack_.back()->content))
      fail("data.pkl takes from an empty stack");
    return stack_.back();
  }
  std::vector<Node*> pop_to_mark() {
    std::size_t first = stack_.size();
    while (first > 0 && !std::holds_alternative<Mark>(stack_[first - 1]->content)) --first;
    if (first == 0) fail("data.pkl has no mark where one is needed");
    std::vector<Node*> items(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first - 1);
    return items;
  }
  template <class T>
  T& content(Node* node, std::string_view expected) {
    if (T* found = std::get_if<T>(&node->content)) return *found;
    fail(fmt::format("data.pkl has something else where {} is expected", expected));
  }

  void execute(Op op) {
    switch (op) {
      case Op::kProto:
        take(1);
        return;
      case Op::kMark:
        push(Mark{});
        return;
      case Op::kPop:
        pop();
        return;
      case Op::kPopMark:
        pop_to_mark();
        return;
      case Op::kNone:
        push(std::monostate{});
        return;
      case Op::kNewTrue:
        push(true);
        return;
      case Op::kNewFalse:
        push(false);
        return;
      case Op::kBinInt:
        push(std::int64_t{static_cast<std::int32_t>(little_endian(4))});
        return;
      case Op::kBinInt1:
        push(static_cast<std::int64_t>(little_endian(1)));
        return;
      case Op::kBinInt2:
        push(static_cast<std::int64_t>(little_endian(2)));
        return;
      case Op::kLong1:
        long_integer();
        return;
      case Op::kBinFloat:
        binary_float();
        return;
      case Op::kBinUnicode:
        push(string(little_endian(4)));
        return;
      case Op::kBinString:
        push(string(little_endian(4)));
        return;
      case Op::kShortBinString:
        push(string(little_endian(1)));
        return;
      case Op::kEmptyList:
        push(Sequence{});
        return;
      case Op::kEmptyTuple:
        push(Sequence{{}, true});
        return;
      case Op::kEmptyDict:
        push(Mapping{});
        return;
      case Op::kTuple:
        push(Sequence{pop_to_mark(), true});
        return;
      case Op::kTuple1:
        tuple(1);
        return;
      case Op::kTuple2:
        tuple(2);
        return;
      case Op::kTuple3:
        tuple(3);
        return;
      case Op::kAppend:
        append({pop()});
        return;
      case Op::kAppends:
        append(pop_to_mark());
        return;
      case Op::kSetItem:
        set_item();
        return;
      case Op::kSetItems:
        set_items(pop_to_mark());
        return;
      case Op::kBinPut:
        memo_[little_endian(1)] = top();
        return;
      case Op::kLongBinPut:
        memo_[little_endian(4)] = top();
        return;
      case Op::kBinGet:
        get(little_endian(1));
        return;
      case Op::kLongBinGet:
        get(little_endian(4));
        return;
      case Op::kGlobal:
        global();
        return;
      case Op::kBinPersId:
        persistent_load();
        return;
      case Op::kReduce:
        reduce();
        return;
      case Op::kBuild:
        build();
        return;
      case Op::kStop:
        return;
    }
    fail(fmt::format("data.pkl has opcode 0x{:02x} at byte {}, which no weights-only file has",
                     static_cast<unsigned>(op), position_ - 1));
  }

  void long_integer() {
    const std::size_t size = little_endian(1);
    if (size > 8) fail(fmt::format("data.pkl has an integer of {} bytes; 8 is the limit", size));
    std::uint64_t value = little_endian(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0) value |= ~std::uint64_t{0} << (8 * size);
    push(static_cast<std::int64_t>(value));
  }
  void binary_float() {
    std::uint64_t bits = 0;
    for (const unsigned char byte : take(8)) bits = bits << 8 | byte;
    push(std::bit_cast<double>(bits));
  }
  void tuple(std::size_t count) {
    std::vector<Node*> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    push(Sequence{std::move(items), true});
  }
  void append(const std::vector<Node*>& items) {
    auto& list = content<Sequence>(top(), "a list");
    if (list.is_tuple) fail("data.pkl appends to a tuple");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void set_item() {
    Node* value = pop();
    Node* key = pop();
    content<Mapping>(top(), "a dict").entries.emplace_back(key, value);
  }
  void set_items(const std::vector<Node*>& items) {
    if (items.size() % 2 != 0) fail("data.pkl has a dict key without a value");
    auto& entries = content<Mapping>(top(), "a dict").entries;
    for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
  }
  void get(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail(fmt::format("data.pkl refers to memo {}, which is not there", key));
    stack_.push_back(found->second);
  }
  void global() {
    std::string module = line();
    push(Global{module + "." + line()});
  }

  // ('storage', torch.FloatStorage, '0', 'cpu', numel)
  void persistent_load() {
    const auto& items = content<Sequence>(pop(), "a storage's description").items;
    if (items.size() != 5 || content<std::string>(items[0], "'storage'") != "storage") {
      fail("data.pkl describes a storage in an unknown way");
    }
    const std::string& type_name = content<Global>(items[1], "a storage's type").name;
    const std::string& key = content<std::string>(items[2], "a storage's key");
    const std::int64_t count = content<std::int64_t>(items[4], "a storage's size");
    const auto known = storages_.find(key);
    if (known != storages_.end()) return push(Storage{known->second});
    const auto type =
        type_name.starts_with("torch.") ? scalar_type_of_storage(type_name.substr(6)) : std::nullopt;
    if (!type) fail(fmt::format("tensors of type {} are not supported", type_name));
    const Result<std::span<const std::byte>> bytes = read_storage_(key);
    if (!bytes) throw Failure{bytes.error()};
    const std::size_t size = c10::elementSize(*type);
    if (count < 0 || static_cast<std::uint64_t>(count) != bytes->size() / size || bytes->size() % size != 0) {
      fail(fmt::format("storage {} has {} bytes where {} elements of {} bytes are announced", key,
                       bytes->size(), count, size));
    }
    at::Tensor tensor = at::empty({count}, *type);
    if (!bytes->empty()) std::memcpy(tensor.mutable_data_ptr(), bytes->data(), bytes->size());
    storages_.emplace(key, tensor);
    push(Storage{std::move(tensor)});
  }

  void reduce() {
    const auto& arguments = content<Sequence>(pop(), "a call's arguments").items;
    const std::string& name = content<Global>(pop(), "a callable").name;
    if (name == "collections.OrderedDict" && arguments.empty()) return push(Mapping{{}, true});
    if (name == "collections.Counter" && arguments.size() == 1) {  // MultiStepLR's milestones: a dict
      content<Mapping>(arguments[0], "a Counter's dict");
      return stack_.push_back(arguments[0]);
    }
    if (name == "torch._utils._rebuild_tensor_v2" && arguments.size() >= 4)
      return push(rebuild_tensor(arguments));
    if (name == "torch._utils._rebuild_parameter" && !arguments.empty()) {
      return push(content<at::Tensor>(arguments[0], "a parameter's tensor"));
    }
    if (name == "numpy.core.multiarray._reconstruct") return push(EmptyArray{});
    if (name == "numpy.dtype" && !arguments.empty())
      return push(ArrayType{content<std::string>(arguments[0], "the type of an array")});
    fail(fmt::format(
        "it holds an object of Python's {}, which is more than weights; save a state_dict() instead", name));
  }

  // (storage, offset, size, stride, requires_grad, backward hooks[, metadata])
  at::Tensor rebuild_tensor(const std::vector<Node*>& arguments) {
    const at::Tensor tensor = view_of_storage(arguments);
    if (arguments.size() < 7) return tensor;
    const auto& marks = content<Mapping>(arguments[6], "a tensor's metadata").entries;
    if (marks.size() > kMaxMarks)
      fail(fmt::format("a tensor has {} marks; {} is the limit", marks.size(), kMaxMarks));
    for (const auto& [key, value] : marks) {
      const std::string& name = content<std::string>(key, "the name of a tensor's mark");
      const bool is_set = content<bool>(value, "a tensor's mark");
      if (name == "conj") {
        if (is_set && !tensor.is_complex()) {
          fail(fmt::format("a tensor of type {} is marked as conjugate, which only complex ones can be",
                           at::toString(tensor.scalar_type())));
        }
        tensor._set_conj(is_set);
      } else if (name == "neg") {
        if (is_set && tensor.scalar_type() == at::kBool)
          fail("a tensor of type Bool is marked as negative, which only numbers can be");
        tensor._set_neg(is_set);
      } else {
        fail(fmt::format("a tensor has the mark {}, of which nothing is known here", name));
      }
    }
    return tensor;
  }

  at::Tensor view_of_storage(const std::vector<Node*>& arguments) {
    const at::Tensor& storage = content<Storage>(arguments[0], "a storage").tensor;
    const std::int64_t offset = content<std::int64_t>(arguments[1], "a tensor's offset");
    const std::vector<std::int64_t> sizes = integers(arguments[2]);
    const std::vector<std::int64_t> strides = integers(arguments[3]);
    spend(sizeof(at::TensorImpl) + (sizes.size() + strides.size()) * sizeof(std::int64_t));
    // Offset, sizes and strides may be anything: the last element they reach must lie in the storage.
    __extension__ using Wide = __int128;
    Wide last = offset;
    Wide count = 1;
    const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    bool is_valid = offset >= 0 && sizes.size() == strides.size();
    for (std::size_t i = 0; is_valid && i < sizes.size(); ++i) {
      is_valid = sizes[i] >= 0 && strides[i] >= 0;
      // Stride 0 makes any number of elements from one, and a size of 0 hides what stands beside it.
      count *= std::max<std::int64_t>(sizes[i], 1);
      if (count > kMaxElements) {
        fail(fmt::format("a tensor of size [{}] has more elements than can be counted",
                         fmt::join(sizes, ", ")));
      }
      last += (Wide{sizes[i]} - 1) * strides[i];
      is_valid = is_valid && (is_empty || last < storage.numel());
    }
    if (!is_valid || (!is_empty && last >= storage.numel())) {
      fail(fmt::format(
          "a tensor of size [{}] and stride [{}] at offset {} reaches beyond its storage of {} elements",
          fmt::join(sizes, ", "), fmt::join(strides, ", "), offset, storage.numel()));
    }
    if (is_empty) return at::empty(sizes, storage.options());
    return storage.as_strided(sizes, strides, offset);
  }
  std::vector<std::int64_t> integers(Node* node) {
    const auto& items = content<Sequence>(node, "a tensor's size").items;
    // A few bytes may name one long tuple as often as they like.
    if (items.size() > kMaxDimensions) {
      fail(fmt::format("a tensor has a size or stride of {} numbers, and {} dimensions are the limit",
                       items.size(), kMaxDimensions));
    }
    std::vector<std::int64_t> values;
    for (Node* item : items) {
      values.push_back(content<std::int64_t>(item, "an integer"));
    }
    return values;
  }

  // state_dict() carries `_metadata` as an attribute; it has no meaning outside Python. Nor has what is beside the name
  // of a type of single bytes.
  void build() {
    Node* const state = pop();
    Node* const object = top();
    if (std::holds_alternative<EmptyArray>(object->content)) {
      object->content = array_of(state);
    } else if (!std::holds_alternative<ArrayType>(object->content)) {
      content<Mapping>(object, "a dict");
    }
  }

  // (version, sizes, type, in Fortran's order, bytes)
  at::Tensor array_of(Node* state) {
    const auto& items = content<Sequence>(state, "an array").items;
    if (items.size() != 5) fail("data.pkl describes an array in an unknown way");
    const std::vector<std::int64_t> sizes = integers(items[1]);
    const std::string& type = content<ArrayType>(items[2], "the type of an array").name;
    if (type != "u1" || content<bool>(items[3], "the order of an array"))
      fail(fmt::format("it holds an array of numpy's type {}, and only bytes in C's order are supported",
                       type));
    const std::string& bytes = content<std::string>(items[4], "the bytes of an array");
    __extension__ using Wide = __int128;
    Wide count = 1;
    bool is_empty = false;
    for (const std::int64_t size : sizes) {
      is_empty = is_empty || size == 0;
      count *= std::max<std::int64_t>(size, 1);
      if (size < 0 || count > kMaxElements)
        fail(fmt::format("data.pkl has an array of size [{}], which cannot be", fmt::join(sizes, ", ")));
    }
    if (is_empty) count = 0;
    if (count != static_cast<Wide>(bytes.size())) {
      fail(fmt::format("data.pkl has {} bytes for an array of size [{}]", bytes.size(),
                       fmt::join(sizes, ", ")));
    }
    spend(bytes.size());
    at::Tensor tensor = at::empty(sizes, at::kByte);
    if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

  void spend(std::size_t bytes) {
    const std::size_t budget = kBytesForAnyFile + kBytesPerByte * bytes_.size();
    spent_ += bytes;
    if (spent_ <= budget) return;
    fail(
        fmt::format("it stands for more than {} bytes of values, and its data.pkl has {}; repeated "
                    "references make it grow",
                    budget, bytes_.size()));
  }
  PtValue to_value(const Node& node, int depth) {
    if (depth > kMaxDepth) fail(fmt::format("its containers are nested more than {} deep", kMaxDepth));
    spend(sizeof(PtValue));
    return std::visit([&](const auto& alternative) { return convert(alternative, depth); }, node.content);
  }
  template <class T>
  PtValue convert(const T& scalar, int) {
    return PtValue(scalar);
  }
  PtValue convert(const std::string& text, int) {
    spend(text.size());
    return PtValue(text);
  }
  PtValue convert(std::monostate, int) { return {}; }
  PtValue convert(Mark, int) { fail("data.pkl leaves a mark on its stack"); }
  PtValue convert(const Global& global, int) { fail(fmt::format("it refers to Python's {}", global.name)); }
  PtValue convert(const Storage& storage, int) { return storage.tensor; }
  PtValue convert(const ArrayType&, int) { fail("it refers to a type of numpy"); }
  PtValue convert(EmptyArray, int) { fail("it holds an array without its content"); }
  PtValue convert(const Sequence& sequence, int depth) {
    std::vector<PtValue> items;
    for (const Node* item : sequence.items) items.push_back(to_value(*item, depth + 1));
    if (sequence.is_tuple) return PtTuple{std::move(items)};
    return PtList{std::move(items)};
  }
  PtValue convert(const Mapping& mapping, int depth) {
    PtDict dict;
    dict.ordered = mapping.ordered;
    std::map<std::string, std::size_t> places;  // one of hashes could be made slow by who chooses the keys
    for (const auto& [key_node, value_node] : mapping.entries) {
      PtValue key = to_value(*key_node, depth + 1);
      PtValue value = to_value(*value_node, depth + 1);
      auto text = key_text(key);
      if (text) {
        spend(text->size());
        const auto [place, is_new] = places.try_emplace(std::move(*text), dict.entries.size());
        if (!is_new) {
          dict.entries[place->second].second = std::move(value);
          continue;
        }
      }
      dict.add(std::move(key), std::move(value));
    }
    return dict;
  }

  std::span<const std::byte> bytes_;
  const StorageReader& read_storage_;
  std::size_t position_ = 0;
  std::deque<Node> arena_;
  std::vector<Node*> stack_;
  std::unordered_map<std::uint64_t, Node*> memo_;
  std::map<std::string, at::Tensor> storages_;
  std::size_t spent_ = 0;  ///< bytes of the values made so far
};

Error too_little_memory() { return {ErrorCode::kOs, "there is not enough memory for what the file holds"}; }

}  // namespace

Result<PtValue> unpickle(std::span<const std::byte> bytes, const StorageReader& read_storage) {
  try {
    return Unpickler(bytes, read_storage).run();
  } catch (const Failure& failure) {
    return failure.error;
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    // The words of c10's allocator. The host is short of memory, and the file may be whole.
    if (why.find("can't allocate memory") != std::string::npos) return too_little_memory();
    return corrupt(fmt::format("libtorch cannot make what it stands for: {}", why));
  } catch (const std::bad_alloc&) {
    return too_little_memory();
  }
}

}  // namespace ddprun::runtime
