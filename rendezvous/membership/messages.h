#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::membership {

/// A connection begins with these four bytes from the agent; 'D' tells it from a store client's 0x00. Then
/// both sides send frames: a big-endian u32 length and that many bytes of JSON, an object whose "type" names
/// it.
inline constexpr std::string_view kGreeting = "DDPR";
/// Grows with every change that the other side must know. The frames, Hello's "version" and Refused never
/// change, so that two versions can always tell each other why they part.
inline constexpr int kProtocolVersion = 6;
inline constexpr std::size_t kFrameHeaderBytes = 4;
inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;
/// Of a worker's last words, and of the error it wrote down or was diagnosed; the rest of a frame is small.
inline constexpr std::size_t kMaxTailBytes = 8 * 1024;
inline constexpr std::size_t kMaxErrorBytes = 1024;
inline constexpr std::size_t kMaxStackBytes = 3 * 1024;
/// Of a name, and of a sentence, that one side chose and the other shows; see printable().
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxSentenceBytes = 4 * 1024;
/// Of output in one message. JSON writes a byte as six at most.
inline constexpr std::size_t kMaxLogBytes = 8 * 1024;
/// Of what a node sees of its ranks, in one message: JSON in ASCII, which JSON writes as twice that at most.
inline constexpr std::size_t kMaxLookBytes = 24 * 1024;
/// Of what a doctor says: quotes in it are escaped once more.
inline constexpr std::size_t kMaxDoctorBytes = 24 * 1024;

/// The agent's first frame.
struct Hello {
  int version = kProtocolVersion;
  std::string run_id;
  int min_nodes = 1;
  int max_nodes = 1;
  NodeFacts node;  ///< `address` is not sent: the coordinator sees it
  bool has_secret = false;
  std::string nonce;        ///< hexadecimal; fresh for every connection
  bool is_control = false;  ///< no node: `ddprun drain`
};

/// The coordinator knows the secret, and asks whether the agent does.
struct Challenge {
  std::string nonce;
  std::string proof;
};

struct Proof {
  std::string proof;
};

/// The agent is a member. The coordinator's timing holds for both, or the lease would promise nothing.
struct Welcome {
  Timing timing;
  bool knows_numbers = false;  ///< LookKind::kNumbers; who does not say so is older
};

/// Why not, or why no longer; the connection is closed after it.
struct Refused {
  std::string reason;
  bool may_return = false;  ///< as a new member, once its workers are gone
};

/// What workers of the sender have written, for the coordinator's console. Bytes that are not UTF-8 come as
/// U+FFFD.
struct LogLines {
  bool is_stderr = false;
  std::string text;                  ///< whole lines, but for one that is too long or the last of a stream
  std::uint64_t dropped_before = 0;  ///< lines that are missing before `text`: they came too fast
};

/// `ddprun drain`, and an agent that was asked to by it: the whole job, or one node's part in it.
struct DrainRequest {
  std::optional<NodeRank> node;
};

/// `ddprun why` and `ddprun ps --watch`. From an agent: what do the others see of their ranks? From the coordinator:
/// what do you see? One that does not know kNumbers takes it for the other, so that it is never asked for them.
struct LookRequest {
  std::uint64_t number = 0;    ///< the sender's own
  std::size_t most_bytes = 0;  ///< of the whole answer; of an agent's 0
  LookKind kind = LookKind::kWhy;
};

/// Some of what a node sees of its ranks, in whatever form; the parts in their order.
struct LookAnswer {
  std::uint64_t number = 0;  ///< of the request
  /// From the coordinator: a number of the node; 0: those that were asked have all been named.
  std::uint64_t from = 0;
  std::string node{};  ///< from the coordinator: its name, for people; of 0, why nobody was asked
  std::string text{};  ///< up to kMaxLookBytes; from the coordinator empty: that node was asked, or is gone
  bool is_last = false;
  bool is_older = false;  ///< from the coordinator: that node does not know the question, and was not asked
};

/// What hosts that `ddprun doctor` examines say to each other once they are let in: JSON, which the launcher reads.
struct DoctorWords {
  std::string text;  ///< at most kMaxDoctorBytes
};

using Message = std::variant<Hello, Challenge, Proof, Welcome, Refused, DrainRequest, LogLines, LookRequest,
                             LookAnswer, DoctorWords, Status, Order>;

/// "hello", "order": its "type" on the wire.
std::string_view type_of(const Message& message);

/// A whole frame. Of a message that was read it is the frame that was read, if this function had made that.
std::string encode(const Message& message);

/// Errors  kCorrupt: no JSON, an unknown type, a field that is missing or of another kind or range; names it.
Result<Message> parse_message(std::string_view json);

/// The length in a frame's header.
/// Errors  kCorrupt above kMaxFrameBytes.
Result<std::size_t> parse_frame_length(const unsigned char (&header)[kFrameHeaderBytes]);

}  // namespace ddprun::membership
