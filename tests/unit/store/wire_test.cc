#include "rendezvous/store/wire.h"

#include "tests/support/catch.h"

#include <chrono>

using namespace ddprun;
using namespace ddprun::store;

namespace {

constexpr Limits kSmall{
    .max_keys = 4, .max_key_bytes = 8, .max_value_bytes = 16, .max_request_bytes = 64, .max_reply_bytes = 64};

Request simple(Opcode opcode) {
  return {.opcode = opcode, .nonce = 0, .number = 0, .keys = {}, .values = {}};
}

// One of each opcode, with everything it can carry.
std::vector<Request> one_of_each() {
  std::vector<Request> requests;
  for (std::uint8_t code = 0; code < kOpcodeCount; ++code)
    requests.push_back(simple(static_cast<Opcode>(code)));
  const auto at = [&](Opcode opcode) -> Request& { return requests[static_cast<std::size_t>(opcode)]; };
  at(Opcode::kValidate).nonce = kValidateMagic;
  at(Opcode::kPing).nonce = 4711;
  for (const Opcode opcode : {Opcode::kSet, Opcode::kAppend, Opcode::kQueuePush}) {
    at(opcode).keys = {"/k"};
    at(opcode).values = {"value"};
  }
  at(Opcode::kCompareSet).keys = {"/k"};
  at(Opcode::kCompareSet).values = {"old", "new"};
  for (const Opcode opcode : {Opcode::kGet, Opcode::kDeleteKey, Opcode::kQueuePop, Opcode::kQueueLen}) {
    at(opcode).keys = {"/k"};
  }
  for (const Opcode opcode : {Opcode::kAdd, Opcode::kBarrier}) {
    at(opcode).keys = {"/k"};
    at(opcode).number = -3;
  }
  for (const Opcode opcode : {Opcode::kCheck, Opcode::kWait, Opcode::kMultiGet})
    at(opcode).keys = {"/a", "", "/c"};
  at(Opcode::kMultiSet).keys = {"/a", "/b"};
  at(Opcode::kMultiSet).values = {"1", ""};
  return requests;
}

void check_same(const Request& read, const Request& written) {
  CHECK(read.opcode == written.opcode);
  CHECK(read.keys == written.keys);
  CHECK(read.values == written.values);
  if (written.number != 0) CHECK(read.number == written.number);
  if (written.nonce != 0) CHECK(read.nonce == written.nonce);
}

std::string u64(std::uint64_t value) {
  std::string bytes;
  append_u64(bytes, value);
  return bytes;
}

std::string opcode_byte(Opcode opcode) { return std::string(1, static_cast<char>(opcode)); }

std::string refusal(std::string_view bytes) {
  RequestParser parser(kSmall);
  const Result<bool> result = parser.parse(bytes);
  REQUIRE(result.has_error());
  CHECK(result.error().code() == ErrorCode::kCorrupt);
  return result.error().message();
}

bool is_whole(std::string_view bytes) {
  RequestParser parser(kSmall);
  return parser.parse(bytes).value();
}

}  // namespace

TEST_CASE("every request is read back as it was written") {
  for (const Request& written : one_of_each()) {
    INFO(to_string(written.opcode));
    const std::string bytes = encode(written);
    RequestParser parser{Limits{}};
    REQUIRE(parser.parse(bytes).value());
    CHECK(parser.request_size() == bytes.size());
    check_same(parser.request(), written);
  }
}

TEST_CASE("a request may arrive in two pieces, cut anywhere") {
  for (const Request& written : one_of_each()) {
    const std::string bytes = encode(written);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      INFO(to_string(written.opcode) << " cut at " << cut);
      RequestParser parser{Limits{}};
      CHECK_FALSE(parser.parse(std::string_view(bytes).substr(0, cut)).value());
      const std::string moved = bytes;
      REQUIRE(parser.parse(moved).value());
      check_same(parser.request(), written);
    }
  }
}

TEST_CASE("requests that follow each other byte by byte are told apart") {
  const std::vector<Request> written = one_of_each();
  std::string stream;
  for (const Request& request : written) stream += encode(request);
  RequestParser parser{Limits{}};
  std::string unread;
  std::size_t found = 0;
  for (const char byte : stream) {
    unread.push_back(byte);
    if (!parser.parse(unread).value()) continue;
    check_same(parser.request(), written.at(found++));
    unread.erase(0, parser.request_size());
    parser.next();
  }
  CHECK(found == written.size());
}

TEST_CASE("the bytes are PyTorch's") {
  CHECK(encode(one_of_each()[0]) == std::string("\0\xCE\xF7\x85\x3C", 5));
  const Request get{.opcode = Opcode::kGet, .nonce = 0, .number = 0, .keys = {"/k"}, .values = {}};
  CHECK(encode(get) == std::string("\x03\x02\0\0\0\0\0\0\0/k", 11));
}

TEST_CASE("a request for no keys is whole") {
  CHECK(is_whole(opcode_byte(Opcode::kWait) + u64(0)));
  CHECK(is_whole(opcode_byte(Opcode::kMultiSet) + u64(0)));
}

TEST_CASE("what follows a request is left alone") {
  const std::string bytes = encode(simple(Opcode::kGetNumKeys));
  RequestParser parser(kSmall);
  REQUIRE(parser.parse(bytes + "\x4d").value());
  CHECK(parser.request_size() == 1);
}

TEST_CASE("an unknown opcode is refused") {
  CHECK(refusal("\x13") == "opcode 19 is unknown; the protocol has 0 to 18");
  CHECK(refusal("\xff") == "opcode 255 is unknown; the protocol has 0 to 18");
}

TEST_CASE("a key over the limit is refused before it arrives") {
  CHECK(refusal(opcode_byte(Opcode::kGet) + u64(9)) == "GET with a key of 9 bytes; the limit is 8");
  CHECK_FALSE(is_whole(opcode_byte(Opcode::kGet) + u64(8)));
}

TEST_CASE("a length that would overflow is refused") {
  CHECK(refusal(opcode_byte(Opcode::kGet) + u64(~0ULL)) ==
        "GET with a key of 18446744073709551615 bytes; the limit is 8");
}

TEST_CASE("a value over the limit is refused before it arrives") {
  CHECK(refusal(opcode_byte(Opcode::kSet) + u64(1) + "k" + u64(17)) ==
        "SET with a value of 17 bytes; the limit is 16");
}

TEST_CASE("the second value of a compare-and-set has the same limit") {
  CHECK(refusal(opcode_byte(Opcode::kCompareSet) + u64(1) + "k" + u64(0) + u64(17)) ==
        "COMPARE_SET with a value of 17 bytes; the limit is 16");
}

TEST_CASE("too many keys are refused by their number alone") {
  CHECK(refusal(opcode_byte(Opcode::kMultiGet) + u64(5)) == "MULTI_GET with 5 keys; the limit is 4");
}

TEST_CASE("a request is refused when its parts are fine and its whole is too much") {
  std::string bytes = opcode_byte(Opcode::kMultiSet) + u64(4);
  for (int i = 0; i < 2; ++i) bytes += u64(1) + "k" + u64(16) + std::string(16, 'v');
  CHECK(refusal(bytes) == "MULTI_SET of more than 64 bytes in all, which is the limit");
}

TEST_CASE("a huge request in small pieces costs linear work") {
  Request written = simple(Opcode::kMultiSet);
  const std::string value(64, 'v');
  written.keys.assign(100000, "/key");
  written.values.assign(written.keys.size(), value);
  const std::string bytes = encode(written);
  RequestParser parser{Limits{}};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t size = 0; size < bytes.size(); size += 1000) {
    REQUIRE_FALSE(parser.parse(std::string_view(bytes).substr(0, size)).value());
  }
  REQUIRE(parser.parse(bytes).value());
  CHECK(parser.request().keys.size() == written.keys.size());
  // Read from the start for each of the 8,400 pieces, this would take minutes.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
