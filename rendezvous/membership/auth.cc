#include "rendezvous/membership/auth.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace ddprun::membership {
namespace {

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string without_line_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

std::string make_nonce() {
  std::array<unsigned char, 32> bytes{};
  DDPRUN_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
               "the kernel gives random bytes");
  return to_hex(bytes);
}

std::string make_proof(std::string_view secret, Side side, std::string_view hello_frame,
                       std::string_view coordinator_nonce) {
  std::string text = side == Side::kAgent ? "ddprun agent" : "ddprun coordinator";
  for (const std::string_view part : {hello_frame, coordinator_nonce}) {
    text += fmt::format("|{}:", part.size());
    text += part;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length);
  DDPRUN_CHECK(made != nullptr, "HMAC-SHA256 is available");
  return to_hex(std::span(digest).first(length));
}

bool is_same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> load_secret(const SecretSource& source) {
  const std::string& path = source.file;
  if (path.empty()) {
    std::string secret = without_line_end(source.text.value_or(""));
    if (!source.text || !secret.empty()) return secret;
    return Error(ErrorCode::kUsage,
                 "DDPRUN_SECRET is set and empty: unset it for a job without a secret, or give it one");
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return Error(ErrorCode::kUsage, fmt::format("--rdzv-secret-file {}: {}", path, std::strerror(errno)));
  }
  if ((facts.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)) != 0) {
    return Error(ErrorCode::kUsage,
                 fmt::format("--rdzv-secret-file {}: others may read or write it (mode {:03o}); "
                             "chmod 600 it",
                             path, facts.st_mode & 0777U));
  }
  std::string secret = without_line_end(read_text(path));
  if (secret.empty()) {
    return Error(ErrorCode::kUsage,
                 fmt::format("--rdzv-secret-file {}: it is empty or cannot be read", path));
  }
  return secret;
}

std::string no_secret_at(Port port, std::string_view run_id) {
  return fmt::format("no job secret: whoever reaches port {} of this machine can join job {}", port, run_id);
}

}  // namespace ddprun::membership
