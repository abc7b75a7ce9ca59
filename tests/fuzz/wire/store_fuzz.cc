// Any bytes, in any pieces, from any of three clients: the parser and the core may refuse them, and nothing
// else.
//
// Promises checked: the pieces make no difference to what is read; what is read encodes to the bytes it came
// from; when all clients have left, nobody waits.

#include "rendezvous/base/check.h"
#include "rendezvous/store/store_core.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace ddprun::store;

namespace {

constexpr Limits kLimits{.max_keys = 64,
                         .max_key_bytes = 64,
                         .max_value_bytes = 256,
                         .max_request_bytes = 1024,
                         .max_reply_bytes = 4096};

class Client final : public StoreClient {
 public:
  void send(std::string_view bytes) override { received_ += bytes.size(); }
  std::size_t received_ = 0;
};

// The requests in `bytes`, each as its bytes; stops at the first that is refused or incomplete.
std::vector<std::string> requests_in(std::string_view bytes) {
  RequestParser parser(kLimits);
  std::vector<std::string> requests;
  while (!bytes.empty()) {
    const Result<bool> whole = parser.parse(bytes);
    if (!whole || !*whole) break;
    requests.push_back(encode(parser.request()));
    DDPRUN_CHECK(requests.back() == bytes.substr(0, parser.request_size()), "a request encodes to its bytes");
    bytes.remove_prefix(parser.request_size());
    parser.next();
  }
  return requests;
}

std::vector<std::string> requests_in_pieces(std::string_view bytes, std::size_t piece) {
  RequestParser parser(kLimits);
  std::vector<std::string> requests;
  std::string unread;
  while (!bytes.empty()) {
    unread += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const Result<bool> whole = parser.parse(unread);
      if (!whole) return requests;
      if (!*whole) break;
      requests.push_back(encode(parser.request()));
      unread.erase(0, parser.request_size());
      parser.next();
    }
  }
  return requests;
}

void serve_all(const std::vector<std::string>& requests, std::uint8_t seed) {
  StoreCore core(kLimits);
  std::array<Client, 3> clients;
  for (const std::string& bytes : requests) {
    Client& client = clients.at(seed++ % clients.size());
    RequestParser parser(kLimits);
    DDPRUN_CHECK(parser.parse(bytes).value(), "a request that was read is read again");
    if (client.is_waiting() && parser.request().opcode != Opcode::kCancelWait) continue;
    if (!core.serve(client, parser.request())) core.disconnect(client);
  }
  for (Client& client : clients) core.disconnect(client);
  DDPRUN_CHECK(core.wait_count() == 0, "nobody waits when all have left");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> requests = requests_in(bytes);
  const std::size_t piece = data[0] % 16 + 1U;
  DDPRUN_CHECK(requests_in_pieces(bytes, piece) == requests, "pieces make no difference");
  serve_all(requests, data[0]);
  return 0;
}
