#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/store/limits.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store {

/// The first byte of every request.
/// Source: PyTorch, torch/csrc/distributed/c10d/TCPStoreBackend.hpp.
enum class Opcode : std::uint8_t {
  kValidate = 0,
  kSet = 1,
  kCompareSet = 2,
  kGet = 3,
  kAdd = 4,
  kCheck = 5,
  kWait = 6,
  kGetNumKeys = 7,
  kDeleteKey = 8,
  kAppend = 9,
  kMultiGet = 10,
  kMultiSet = 11,
  kCancelWait = 12,
  kPing = 13,
  kQueuePush = 14,
  kQueuePop = 15,
  kQueueLen = 16,
  kListKeys = 17,
  kBarrier = 18,
};

inline constexpr std::uint8_t kOpcodeCount = 19;

/// What VALIDATE must carry.
inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

/// One-byte replies.
inline constexpr char kReady = 0;         ///< CHECK
inline constexpr char kNotReady = 1;      ///< CHECK
inline constexpr char kStopWaiting = 0;   ///< WAIT, BARRIER
inline constexpr char kWaitCanceled = 1;  ///< CANCEL_WAIT

/// "SET", "MULTI_GET": the protocol's own names.
std::string_view to_string(Opcode opcode);

/// One request. Only the fields that its opcode names are meaningful. The views point into the bytes it was
/// parsed from and live as long as those.
struct Request {
  Opcode opcode = Opcode::kValidate;
  std::uint32_t nonce = 0;             ///< VALIDATE (the magic), PING
  std::int64_t number = 0;             ///< ADD (delta), BARRIER (world size)
  std::vector<std::string_view> keys;  ///< one, or n for CHECK, WAIT, MULTI_GET, MULTI_SET
  /// SET, APPEND, QUEUE_PUSH: one; COMPARE_SET: expected, desired; MULTI_SET: n.
  std::vector<std::string_view> values;

  [[nodiscard]] std::string_view key() const { return keys.front(); }
  [[nodiscard]] std::string_view value() const { return values.front(); }
};

/// The bytes of `request`: what `RequestParser` reads back.
std::string encode(const Request& request);

/// Replies are made of these: integers in host byte order, strings with a 64-bit length before them.
void append_u8(std::string& out, char value);
void append_u32(std::string& out, std::uint32_t value);
void append_u64(std::string& out, std::uint64_t value);
void append_i64(std::string& out, std::int64_t value);
void append_string(std::string& out, std::string_view value);

/// What a request consists of after its opcode.
enum class Field : std::uint8_t {
  kKey,
  kValue,
  kInt64,
  kUint32,
  kCount,  ///< how often the fields that follow are repeated
};

/// Cuts a byte stream into requests. It remembers how far it has come, so that a request that arrives in many
/// pieces is read once, not once for every piece.
///
///   while (parser.parse(unread).value()) {
///     serve(parser.request());
///     unread.remove_prefix(parser.request_size());
///     parser.next();
///   }
class RequestParser {
 public:
  explicit RequestParser(const Limits& limits) : limits_(limits) {}

  /// True when `bytes` begins with a whole request; false when more bytes are needed. Until `next()`, every
  /// call must be given the bytes of the call before and possibly more.
  /// Errors  kCorrupt, for bytes that are no request or break a limit; the parser is useless afterwards.
  Result<bool> parse(std::string_view bytes);

  /// The request that `parse` found; its views point into the bytes of that call.
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] std::size_t request_size() const { return cursor_; }

  /// Prepares for the request that follows.
  void next();

 private:
  struct Extent {
    std::size_t offset;
    std::size_t size;
  };

  Result<bool> begin(std::string_view bytes);
  Result<bool> read_field(std::string_view bytes);
  Result<bool> read_string(std::string_view bytes, std::uint64_t limit, std::string_view what,
                           std::vector<Extent>& extents);
  template <class Int>
  bool read_integer(std::string_view bytes, Int& value);
  [[nodiscard]] bool is_complete() const;
  void resolve(std::string_view bytes);

  Limits limits_;
  Request request_;
  std::span<const Field> fields_;
  std::size_t cursor_ = 0;         ///< bytes of this request that are dealt with
  std::size_t field_ = 0;          ///< index into fields_
  std::size_t repeat_from_ = 0;    ///< first of the fields that are repeated
  std::uint64_t rounds_left_ = 1;  ///< how often the repeated fields are still to come, this time included
  std::vector<Extent> keys_;
  std::vector<Extent> values_;
};

}  // namespace ddprun::store
