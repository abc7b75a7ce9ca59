// Any bytes in an agent's frame: the parser refuses them or reads a message, and a job that is told what was
// read goes on.
//
// Promises checked: what was read, written and read again is the same; no message breaks a job's invariants;
// nobody who does not know the secret is let in, by either side, at any step of the handshake.

#include "rendezvous/base/check.h"
#include "rendezvous/membership/handshake.h"
#include "rendezvous/membership/job.h"
#include "rendezvous/membership/messages.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

using namespace ddprun;
using namespace ddprun::membership;

namespace {

// The frame without its header.
std::string json_of(const Message& message) { return encode(message).substr(kFrameHeaderBytes); }

NodeFacts agent(std::uint64_t id) { return {.id = MemberId(id), .host = "a", .address = "10.0.0.1"}; }

void tell_a_job(const Message& message) {
  const TimePoint now{};
  Job job({.min_nodes = 1, .max_nodes = 3, .max_restarts = 1}, {.debounce = Duration::zero()}, now, "fuzz");
  static_cast<void>(job.joined(agent(1), now));
  if (const auto* hello = std::get_if<Hello>(&message)) static_cast<void>(job.joined(hello->node, now));
  if (const auto* status = std::get_if<Status>(&message))
    static_cast<void>(job.status(MemberId(1), *status, now));
  if (const auto* drain = std::get_if<DrainRequest>(&message)) static_cast<void>(job.drain(drain->node, now));
  static_cast<void>(job.joined(agent(2), now));
  static_cast<void>(job.tick(now + std::chrono::seconds(1)));
  static_cast<void>(job.lost(MemberId(1), Loss::kReset, now + std::chrono::seconds(1)));
  static_cast<void>(job.tick(now + std::chrono::hours(1)));
}

const std::string kSecret = "swordfish";
const JobSpec kSpec{.run_id = "job", .min_nodes = 1, .max_nodes = 3};

// Everything but the nonces is as the real ones have it.
void knock(const Message& message) {
  CoordinatorHandshake coordinator(kSpec, kSecret, "00ff", "10.0.0.1");
  AgentHandshake agent({.run_id = "job", .min_nodes = 1, .max_nodes = 3, .nonce = "ff00"}, kSecret);
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(coordinator.handle(message));
    static_cast<void>(agent.handle(message));
    DDPRUN_CHECK(!coordinator.is_admitted() && !agent.is_in(), "who does not know the secret stays outside");
  }
  AgentHandshake honest({.run_id = "job", .min_nodes = 1, .max_nodes = 3, .nonce = "aa00"}, kSecret);
  CoordinatorHandshake asking(kSpec, kSecret, "11ff", "10.0.0.1");
  const std::string first = honest.first_bytes().substr(kGreeting.size() + kFrameHeaderBytes);
  const auto challenge = asking.handle(parse_message(first).value());
  DDPRUN_CHECK(std::holds_alternative<Challenge>(challenge), "an honest hello is challenged");
  const auto proof = honest.handle(std::get<Challenge>(challenge));
  DDPRUN_CHECK(std::holds_alternative<Proof>(proof), "and its challenge proven");
  static_cast<void>(asking.handle(message));
  DDPRUN_CHECK(!asking.is_admitted(), "in the middle of a handshake, too");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<Message> message = parse_message({reinterpret_cast<const char*>(data), size});
  if (!message) {
    DDPRUN_CHECK(!message.error().message().empty(), "a refusal says why");
    return 0;
  }
  const std::string written = json_of(*message);
  const Result<Message> again = parse_message(written);
  DDPRUN_CHECK(again.has_value(), "what was read can be written and read again");
  DDPRUN_CHECK(json_of(*again) == written, "and is the same then");
  tell_a_job(*message);
  knock(*message);
  return 0;
}
