// messages_fuzz SECONDS [SEED]: feeds mutated messages to the fuzz target. Prints the seed; a crash is
// repeated with it.

#include "rendezvous/membership/messages.h"
#include "tests/fuzz/feed.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::membership;

std::vector<std::string> seeds() {
  const NodeFacts node{.id = MemberId(7),
                       .host = "b",
                       .address = {},
                       .pinned = NodeRank(1),
                       .replaces = MemberId(1),
                       .succeeded = Success{Generation(1), NodeRank(1), 2}};
  const NodeFailure failure{.worker = WorkerEnd{.rank = Rank(1), .pid = 4711},
                            .host = "b",
                            .what = "rank 1 exited",
                            .account = {.diagnosis = "boom", .stderr_tail = "x\xff"}};
  const Seat seat{.generation = Generation(1), .nodes = 2, .world_size = WorldSize(4)};
  const std::vector<Message> messages{
      Hello{.run_id = "job", .max_nodes = 3, .node = node, .nonce = "00ff"},
      Hello{.run_id = "job",
            .min_nodes = 1,
            .max_nodes = 3,
            .node = node,
            .has_secret = true,
            .nonce = "ff00",
            .is_control = true},
      Challenge{.nonce = "00", .proof = "ff"},
      Proof{.proof = "ff"},
      Welcome{},
      Refused{.reason = "why", .may_return = true},
      DrainRequest{.node = NodeRank(0)},
      DoctorWords{.text = "{}"},
      Status{.sequence = 1, .generation = Generation(1), .phase = Phase::kRunning},
      Status{.sequence = 2, .generation = Generation(1), .phase = Phase::kStopping, .failure = failure},
      Status{.sequence = 3, .generation = Generation(1), .leaving_signal = 15, .cut_off = "it stood still"},
      Order{.text = "waiting"},
      Order{.kind = OrderKind::kRun, .generation = Generation(1), .seat = seat},
      Order{.kind = OrderKind::kEnd, .end = JobEnd{.exit_code = 1, .why = "x", .root_cause = failure}},
  };
  std::vector<std::string> texts;
  for (const Message& message : messages) texts.push_back(encode(message).substr(kFrameHeaderBytes));
  return texts;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), seeds_(seeds()) {}

  std::string next() {
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t left = below(5); left > 0 && !input.empty(); --left) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size());
    switch (below(5)) {
      case 0:
        input[at] = static_cast<char>(below(256));
        break;
      case 1:
        input.erase(at, below(12));
        break;
      case 2:
        input.insert(at, input.substr(below(input.size()), below(20)));
        break;
      default:
        change_number(input, at);
        break;
    }
  }

  // The next number in the text becomes one that is hard to bear.
  void change_number(std::string& input, std::size_t from) {
    const std::size_t begin = input.find_first_of("0123456789", from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(input.find_first_not_of("0123456789.", begin), input.size());
    input.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
  }

  static constexpr const char* kNumbers[] = {
      "0",   "-1",    "1",    "2147483647", "4294967296", "18446744073709551615",
      "1e9", "0.001", "null", "\"1\"",      "true",       "-9223372036854775808"};
  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
};

}  // namespace

int main(int argc, char** argv) { return ddprun::fuzz::feed<Generator>(argc, argv); }
