#include "rendezvous/store/wire.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace ddprun::store {
namespace {

struct Grammar {
  std::string_view name;
  std::span<const Field> fields;
};

constexpr std::array kNonceOnly{Field::kUint32};
constexpr std::array kOneKey{Field::kKey};
constexpr std::array kKeyValue{Field::kKey, Field::kValue};
constexpr std::array kKeyTwoValues{Field::kKey, Field::kValue, Field::kValue};
constexpr std::array kKeyNumber{Field::kKey, Field::kInt64};
constexpr std::array kManyKeys{Field::kCount, Field::kKey};
constexpr std::array kManyKeyValues{Field::kCount, Field::kKey, Field::kValue};

constexpr std::array<Grammar, kOpcodeCount> kGrammars{{
    {"VALIDATE", kNonceOnly}, {"SET", kKeyValue},       {"COMPARE_SET", kKeyTwoValues},
    {"GET", kOneKey},         {"ADD", kKeyNumber},      {"CHECK", kManyKeys},
    {"WAIT", kManyKeys},      {"GETNUMKEYS", {}},       {"DELETE_KEY", kOneKey},
    {"APPEND", kKeyValue},    {"MULTI_GET", kManyKeys}, {"MULTI_SET", kManyKeyValues},
    {"CANCEL_WAIT", {}},      {"PING", kNonceOnly},     {"QUEUE_PUSH", kKeyValue},
    {"QUEUE_POP", kOneKey},   {"QUEUE_LEN", kOneKey},   {"LIST_KEYS", {}},
    {"BARRIER", kKeyNumber},
}};

const Grammar& grammar_of(Opcode opcode) { return kGrammars.at(static_cast<std::size_t>(opcode)); }

// A parser that has seen a huge request gives the memory back: there is one for every connection.
constexpr std::size_t kKeptExtents = 256;

template <class Int>
void append_integer(std::string& out, Int value) {
  std::array<char, sizeof(Int)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(Int));
  out.append(bytes.data(), bytes.size());
}

Error corrupt(std::string message) { return Error(ErrorCode::kCorrupt, std::move(message)); }

// Writes the fields of one request; a stream of keys and one of values feed the repetitions.
class Encoder {
 public:
  explicit Encoder(const Request& request) : request_(request) {}

  std::string encode() {
    out_.push_back(static_cast<char>(request_.opcode));
    const std::span<const Field> fields = grammar_of(request_.opcode).fields;
    const bool is_repeated = !fields.empty() && fields.front() == Field::kCount;
    if (!is_repeated) {
      append(fields);
      return std::move(out_);
    }
    append_u64(out_, request_.keys.size());
    for (std::size_t i = 0; i < request_.keys.size(); ++i) append(fields.subspan(1));
    return std::move(out_);
  }

 private:
  void append(std::span<const Field> fields) {
    for (const Field field : fields) {
      switch (field) {
        case Field::kKey:
          append_string(out_, request_.keys.at(next_key_++));
          break;
        case Field::kValue:
          append_string(out_, request_.values.at(next_value_++));
          break;
        case Field::kInt64:
          append_i64(out_, request_.number);
          break;
        case Field::kUint32:
          append_u32(out_, request_.nonce);
          break;
        case Field::kCount:
          DDPRUN_CHECK(false, "a count comes first or not at all");
          break;
      }
    }
  }

  const Request& request_;
  std::string out_;
  std::size_t next_key_ = 0;
  std::size_t next_value_ = 0;
};

}  // namespace

std::string_view to_string(Opcode opcode) { return grammar_of(opcode).name; }

std::string encode(const Request& request) { return Encoder(request).encode(); }

void append_u8(std::string& out, char value) { out.push_back(value); }
void append_u32(std::string& out, std::uint32_t value) { append_integer(out, value); }
void append_u64(std::string& out, std::uint64_t value) { append_integer(out, value); }
void append_i64(std::string& out, std::int64_t value) { append_integer(out, value); }
void append_string(std::string& out, std::string_view value) {
  append_u64(out, value.size());
  out.append(value);
}

Result<bool> RequestParser::parse(std::string_view bytes) {
  if (cursor_ == 0) {
    Result<bool> begun = begin(bytes);
    if (!begun || !*begun) return begun;
  }
  while (!is_complete()) {
    Result<bool> read = read_field(bytes);
    if (!read || !*read) return read;
    if (field_ == fields_.size() && --rounds_left_ > 0) field_ = repeat_from_;
  }
  resolve(bytes);
  return true;
}

void RequestParser::next() {
  cursor_ = 0;
  field_ = 0;
  repeat_from_ = 0;
  rounds_left_ = 1;
  keys_.clear();
  values_.clear();
  if (keys_.capacity() > kKeptExtents) *this = RequestParser(limits_);
}

Result<bool> RequestParser::begin(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto code = static_cast<std::uint8_t>(bytes.front());
  if (code >= kOpcodeCount) {
    return corrupt(fmt::format("opcode {} is unknown; the protocol has 0 to {}", code, kOpcodeCount - 1));
  }
  request_.opcode = static_cast<Opcode>(code);
  fields_ = grammar_of(request_.opcode).fields;
  cursor_ = 1;
  return true;
}

Result<bool> RequestParser::read_field(std::string_view bytes) {
  switch (fields_[field_]) {
    case Field::kKey: {
      Result<bool> read = read_string(bytes, limits_.max_key_bytes, "a key", keys_);
      if (!read || !*read) return read;
      break;
    }
    case Field::kValue: {
      Result<bool> read = read_string(bytes, limits_.max_value_bytes, "a value", values_);
      if (!read || !*read) return read;
      break;
    }
    case Field::kInt64:
      if (!read_integer(bytes, request_.number)) return false;
      break;
    case Field::kUint32:
      if (!read_integer(bytes, request_.nonce)) return false;
      break;
    case Field::kCount:
      if (!read_integer(bytes, rounds_left_)) return false;
      if (rounds_left_ > limits_.max_keys) {
        return corrupt(fmt::format("{} with {} keys; the limit is {}", to_string(request_.opcode),
                                   rounds_left_, limits_.max_keys));
      }
      repeat_from_ = field_ + 1;
      if (rounds_left_ == 0) {
        field_ = fields_.size() - 1;
        rounds_left_ = 1;
      }
      break;
  }
  ++field_;
  return true;
}

Result<bool> RequestParser::read_string(std::string_view bytes, std::uint64_t limit, std::string_view what,
                                        std::vector<Extent>& extents) {
  std::uint64_t size = 0;
  const std::size_t start = cursor_;
  if (!read_integer(bytes, size)) return false;
  if (size > limit) {
    return corrupt(fmt::format("{} with {} of {} bytes; the limit is {}", to_string(request_.opcode), what,
                               size, limit));
  }
  if (cursor_ + size > limits_.max_request_bytes) {
    return corrupt(fmt::format("{} of more than {} bytes in all, which is the limit",
                               to_string(request_.opcode), limits_.max_request_bytes));
  }
  if (bytes.size() - cursor_ < size) {
    cursor_ = start;  // the length is read again with the rest: eight bytes, whatever the size
    return false;
  }
  extents.push_back({cursor_, static_cast<std::size_t>(size)});
  cursor_ += static_cast<std::size_t>(size);
  return true;
}

template <class Int>
bool RequestParser::read_integer(std::string_view bytes, Int& value) {
  if (bytes.size() - cursor_ < sizeof(Int)) return false;
  std::memcpy(&value, bytes.data() + cursor_, sizeof(Int));
  cursor_ += sizeof(Int);
  return true;
}

bool RequestParser::is_complete() const { return field_ == fields_.size(); }

void RequestParser::resolve(std::string_view bytes) {
  request_.keys.clear();
  request_.values.clear();
  for (const Extent& extent : keys_) request_.keys.push_back(bytes.substr(extent.offset, extent.size));
  for (const Extent& extent : values_) request_.values.push_back(bytes.substr(extent.offset, extent.size));
}

}  // namespace ddprun::store
