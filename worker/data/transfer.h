#pragma once

#include "rendezvous/base/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace ddprun::data {

/// How one answer of a server ended.
enum class TransferEnd {
  kWhole,        ///< all that the server has announced is here
  kCut,          ///< the connection ended before that
  kSilent,       ///< nothing came for `patience`
  kNoRanges,     ///< asked for the rest of a file, the server gave all of it: nothing was taken
  kRefused,      ///< it answered with an error
  kUnreachable,  ///< it did not answer at all: no such name, no route, no listener, no certificate
  kRejected,     ///< `take` wanted no more
  kStopped,      ///< by `stop`
};

struct TransferRequest {
  std::string url;
  std::int64_t offset = 0;  ///< bytes that are here already: only the rest is asked for
  std::chrono::seconds patience{30};
  /// Send the name and password that ~/.netrc has for the host, unasked, as curl does: never to whom the user did not
  /// name.
  bool signs_in = false;
  /// What came, in order; false: no more.
  std::function<bool(std::span<const std::uint8_t>)> take;
  /// Now and then: bytes that came, and that were announced (0: none were), of this answer.
  std::function<void(std::int64_t received, std::int64_t announced)> progress;
  std::stop_token stop;
};

struct TransferOutcome {
  TransferEnd end = TransferEnd::kWhole;
  std::int64_t received = 0;
  long status = 0;  ///< of HTTP; 0: there was none
  std::string why;  ///< in words; empty where all went well
};

/// HTTP and HTTPS by libcurl, which is opened when something is to be transferred and not before: no program is linked
/// against it. Redirects are followed, and proxies are those of the environment, as for curl.
class HttpClient {
 public:
  /// Errors  kNotFound: there is no libcurl on this machine.
  static Result<HttpClient> open();

  /// Blocks until the answer is over.
  /// Threads  one at a time.
  TransferOutcome get(const TransferRequest& request);

 private:
  struct Library;
  explicit HttpClient(std::shared_ptr<const Library> library);

  std::shared_ptr<const Library> library_;
};

/// `url` without the name and password in it: for messages.
std::string shown_url(const std::string& url);

}  // namespace ddprun::data
