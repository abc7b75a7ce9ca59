#include "worker/runtime/checkpoint/unpickle.h"

#include "worker/runtime/checkpoint/corrupt.h"
#include "worker/runtime/checkpoint/pickle_node.h"
#include "worker/runtime/checkpoint/pickle_opcodes.h"
#include "worker/runtime/checkpoint/pickled_tensors.h"

#include <c10/util/Exception.h>
#include <c10/util/bit_cast.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <deque>
#include <new>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace ddprun::runtime {
namespace pickled {
namespace {

/// Pickle's machine: opcodes, a stack and a memo.
class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const StorageReader& read_storage)
      : bytes_(bytes), budget_(bytes.size()), tensors_(read_storage, budget_) {}

  PtValue run() {
    while (true) {
      const Op op{take(1)[0]};
      if (op == Op::kStop) break;
      execute(op);
    }
    return to_value(*pop(), budget_);
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
  void execute(Op op) {
    switch (op) {
      case Op::kProto:
        take(1);
        return;
      case Op::kMark:
        return push(Mark{});
      case Op::kPop:
        pop();
        return;
      case Op::kPopMark:
        pop_to_mark();
        return;
      case Op::kNone:
        return push(std::monostate{});
      case Op::kNewTrue:
        return push(true);
      case Op::kNewFalse:
        return push(false);
      case Op::kBinInt:
        return push(std::int64_t{static_cast<std::int32_t>(little_endian(4))});
      case Op::kBinInt1:
        return push(static_cast<std::int64_t>(little_endian(1)));
      case Op::kBinInt2:
        return push(static_cast<std::int64_t>(little_endian(2)));
      case Op::kLong1:
        return long_integer();
      case Op::kBinFloat:
        return binary_float();
      case Op::kBinUnicode:
        return push(string(little_endian(4)));
      case Op::kBinString:
        return push(string(little_endian(4)));
      case Op::kShortBinString:
        return push(string(little_endian(1)));
      case Op::kEmptyList:
        return push(Sequence{});
      case Op::kEmptyTuple:
        return push(Sequence{{}, true});
      case Op::kEmptyDict:
        return push(Mapping{});
      case Op::kTuple:
        return push(Sequence{pop_to_mark(), true});
      case Op::kTuple1:
        return tuple(1);
      case Op::kTuple2:
        return tuple(2);
      case Op::kTuple3:
        return tuple(3);
      case Op::kAppend:
        return append({pop()});
      case Op::kAppends:
        return append(pop_to_mark());
      case Op::kSetItem:
        return set_item();
      case Op::kSetItems:
        return set_items(pop_to_mark());
      case Op::kBinPut:
        memo_[little_endian(1)] = top();
        return;
      case Op::kLongBinPut:
        memo_[little_endian(4)] = top();
        return;
      case Op::kBinGet:
        return get(little_endian(1));
      case Op::kLongBinGet:
        return get(little_endian(4));
      case Op::kGlobal:
        return global();
      case Op::kBinPersId:
        return push(tensors_.storage_of(pop()));
      case Op::kReduce:
        return reduce();
      case Op::kBuild:
        return build();
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
    push(c10::bit_cast<double>(bits));
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

  void reduce() {
    const auto& arguments = content<Sequence>(pop(), "a call's arguments").items;
    const std::string& name = content<Global>(pop(), "a callable").name;
    if (name == "collections.OrderedDict" && arguments.empty()) return push(Mapping{{}, true});
    if (name == "collections.Counter" && arguments.size() == 1) {  // MultiStepLR's milestones: a dict
      content<Mapping>(arguments[0], "a Counter's dict");
      return stack_.push_back(arguments[0]);
    }
    if (name == "torch._utils._rebuild_tensor_v2" && arguments.size() >= 4)
      return push(tensors_.rebuild(arguments));
    if (name == "torch._utils._rebuild_parameter" && !arguments.empty()) {
      return push(content<at::Tensor>(arguments[0], "a parameter's tensor"));
    }
    if (name == "numpy.core.multiarray._reconstruct") return push(EmptyArray{});
    if (name == "numpy.dtype" && !arguments.empty())
      return push(ArrayType{content<std::string>(arguments[0], "the type of an array")});
    fail(fmt::format(
        "it holds an object of Python's {}, which is more than weights; save a state_dict() instead", name));
  }

  // state_dict() carries `_metadata` as an attribute; it has no meaning outside Python. Nor has what is beside the name
  // of a type of single bytes.
  void build() {
    Node* const state = pop();
    Node* const object = top();
    if (std::holds_alternative<EmptyArray>(object->content)) {
      object->content = tensors_.array_of(state);
    } else if (!std::holds_alternative<ArrayType>(object->content)) {
      content<Mapping>(object, "a dict");
    }
  }

  std::span<const std::byte> bytes_;
  Budget budget_;
  Tensors tensors_;
  std::size_t position_ = 0;
  std::deque<Node> arena_;
  std::vector<Node*> stack_;
  std::unordered_map<std::uint64_t, Node*> memo_;
};

}  // namespace
}  // namespace pickled

namespace {

Error too_little_memory() { return {ErrorCode::kOs, "there is not enough memory for what the file holds"}; }

}  // namespace

Result<PtValue> unpickle(std::span<const std::byte> bytes, const StorageReader& read_storage) {
  try {
    return pickled::Unpickler(bytes, read_storage).run();
  } catch (const pickled::Failure& failure) {
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
