// store_fuzz SECONDS [SEED]: feeds mutated requests to the fuzz target. Prints the seed; a crash is repeated
// with it.

#include "rendezvous/store/wire.h"
#include "tests/fuzz/feed.h"

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace {

using namespace ddprun::store;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string input(1, static_cast<char>(below(256)));
    const std::size_t count = below(24);
    for (std::size_t i = 0; i < count; ++i) input += request();
    const std::size_t mutations = below(3) == 0 ? below(6) : 0;
    for (std::size_t i = 0; i < mutations; ++i) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  std::string request() {
    Request request;
    request.opcode = static_cast<Opcode>(below(kOpcodeCount));
    request.nonce = below(4) == 0 ? static_cast<std::uint32_t>(random_()) : kValidateMagic;
    request.number = static_cast<std::int64_t>(below(5)) - 1;
    const std::size_t count = request.opcode == Opcode::kCheck || request.opcode == Opcode::kWait ||
                                      request.opcode == Opcode::kMultiGet ||
                                      request.opcode == Opcode::kMultiSet
                                  ? below(5)
                                  : 1;
    for (std::size_t i = 0; i < count; ++i) request.keys.push_back(kKeys[below(std::size(kKeys))]);
    for (std::size_t i = 0; i < count + 1; ++i) request.values.push_back(kValues[below(std::size(kValues))]);
    return encode(request);
  }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size());
    switch (below(4)) {
      case 0:
        input[at] = static_cast<char>(below(256));
        break;
      case 1:
        input.erase(at, below(8));
        break;
      case 2:
        input.insert(at, below(8), static_cast<char>(below(256)));
        break;
      default:
        input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
    }
    if (input.empty()) input.push_back('\0');
  }

  static constexpr const char* kKeys[] = {"", "a", "b", "q", "a long key that is not too long for the limit"};
  static constexpr const char* kValues[] = {"", "1", "-5", "text", " 99999999999999999999"};
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) { return ddprun::fuzz::feed<Generator>(argc, argv); }
