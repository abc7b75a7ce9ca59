#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// 32 random bytes in hexadecimal, from the kernel by way of OpenSSL.
std::string make_nonce();

/// Which side proves that it knows the secret. One's proof is of no use to the other.
enum class Side { kAgent, kCoordinator };

/// HMAC-SHA256 in hexadecimal over the side, the hello's frame (which holds the agent's nonce) and the
/// coordinator's nonce. As both sides bring a fresh nonce, a proof seen once fits no other connection.
/// Source: RFC 2104; challenge and response as in ISO/IEC 9798-4.
std::string make_proof(std::string_view secret, Side side, std::string_view hello_frame,
                       std::string_view coordinator_nonce);

/// Compares in constant time.
bool is_same_proof(std::string_view a, std::string_view b);

/// Where a job's nodes have their secret from.
struct SecretSource {
  std::string file{};                 ///< empty: `text`
  std::optional<std::string> text{};  ///< DDPRUN_SECRET
};

/// The secret from there, without the line end in either place. Empty where neither is given: no secret.
/// Errors  kUsage: it is given and empty; the file cannot be read, or may be read or written by others than
///         its owner.
Result<std::string> load_secret(const SecretSource& source);

/// What is said where a job without a secret listens at a port that others reach.
std::string no_secret_at(Port port, std::string_view run_id);

}  // namespace ddprun::membership
