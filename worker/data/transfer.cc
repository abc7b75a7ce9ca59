#include "worker/data/transfer.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

namespace ddprun::data {
namespace {

constexpr long kMostRedirects = 10;

/// Their younger forms, which take text, are unknown to libcurl before 7.85; which one is here shows at run time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr CURLoption kProtocols = CURLOPT_PROTOCOLS, kRedirectProtocols = CURLOPT_REDIR_PROTOCOLS;
#pragma GCC diagnostic pop
constexpr long kHttp = CURLPROTO_HTTP | CURLPROTO_HTTPS;

/// What the callbacks of one request share.
struct Running {
  const TransferRequest& request;
  std::int64_t received = 0;
  bool is_rejected = false;
};

std::size_t on_bytes(char* bytes, std::size_t size, std::size_t count, void* data) {
  auto& running = *static_cast<Running*>(data);
  const std::size_t all = size * count;
  if (!running.request.take({reinterpret_cast<const std::uint8_t*>(bytes), all})) {
    running.is_rejected = true;
    return 0;
  }
  running.received += static_cast<std::int64_t>(all);
  return all;
}

int on_progress(void* data, curl_off_t announced, curl_off_t /*received*/, curl_off_t /*to_send*/,
                curl_off_t /*sent*/) {
  const auto& running = *static_cast<const Running*>(data);
  if (running.request.stop.stop_requested()) return 1;
  if (running.request.progress) running.request.progress(running.received, announced);
  return 0;
}

TransferEnd end_of(CURLcode code, const Running& running) {
  switch (static_cast<int>(code)) {
    case CURLE_OK:
      return TransferEnd::kWhole;
    case CURLE_WRITE_ERROR:
      return running.is_rejected ? TransferEnd::kRejected : TransferEnd::kCut;
    case CURLE_ABORTED_BY_CALLBACK:
      return TransferEnd::kStopped;
    case CURLE_RANGE_ERROR:
      return TransferEnd::kNoRanges;
    case CURLE_OPERATION_TIMEDOUT:
      return TransferEnd::kSilent;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return TransferEnd::kCut;
    case CURLE_HTTP_RETURNED_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_WEIRD_SERVER_REPLY:
      return TransferEnd::kRefused;
    default:
      return TransferEnd::kUnreachable;
  }
}

}  // namespace

/// The functions of libcurl that are used.
struct HttpClient::Library {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;

  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  bool load(void* library) {
    return find(library, "curl_global_init", global_init) && find(library, "curl_easy_init", easy_init) &&
           find(library, "curl_easy_setopt", easy_setopt) &&
           find(library, "curl_easy_perform", easy_perform) &&
           find(library, "curl_easy_getinfo", easy_getinfo) &&
           find(library, "curl_easy_cleanup", easy_cleanup) &&
           find(library, "curl_easy_strerror", easy_strerror);
  }
};

HttpClient::HttpClient(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

Result<HttpClient> HttpClient::open() {
  auto library = std::make_shared<Library>();
  // Never closed: libcurl and what it brings keep state in threads.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* const opened = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr || !library->load(opened)) continue;
    if (library->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) continue;
    return HttpClient(std::move(library));
  }
  return Error(ErrorCode::kNotFound,
               "libcurl.so.4 is not on this machine (Debian: apt-get install libcurl4)");
}

TransferOutcome HttpClient::get(const TransferRequest& request) {
  const std::unique_ptr<CURL, decltype(library_->easy_cleanup)> handle(library_->easy_init(),
                                                                       library_->easy_cleanup);
  if (!handle) return {.end = TransferEnd::kUnreachable, .why = "libcurl makes no connection"};
  Running running{request};
  std::array<char, CURL_ERROR_SIZE> words{};
  const auto set = [&](CURLoption option, auto value) { library_->easy_setopt(handle.get(), option, value); };
  const long patience = static_cast<long>(request.patience.count());
  set(CURLOPT_URL, request.url.c_str());
  set(kProtocols, kHttp);
  set(kRedirectProtocols, kHttp);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kMostRedirects);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);  // it has threads beside it
  set(CURLOPT_CONNECTTIMEOUT, patience);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, patience);
  if (request.signs_in) set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(request.offset));
  set(CURLOPT_USERAGENT, "ddprun");
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_WRITEFUNCTION, on_bytes);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&running));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&running));
  const CURLcode code = library_->easy_perform(handle.get());
  TransferOutcome outcome{.end = end_of(code, running), .received = running.received};
  library_->easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &outcome.status);
  constexpr long kRangeNotSatisfiable =
      416;  // there is no rest: what is here is as long as the file, or longer
  if (outcome.status == kRangeNotSatisfiable && request.offset > 0) outcome.end = TransferEnd::kWhole;
  if (outcome.end == TransferEnd::kSilent) {
    outcome.why = fmt::format("nothing came for {} s", patience);
  } else if (outcome.end == TransferEnd::kRefused && outcome.status >= 400) {
    outcome.why = fmt::format("the server answered {}", outcome.status);
  } else if (code != CURLE_OK) {
    outcome.why = words[0] != '\0' ? words.data() : library_->easy_strerror(code);
    // "Could not resolve host: …": the form of our own sentences.
    if (outcome.why.size() > 1 && outcome.why[1] >= 'a' && outcome.why[0] >= 'A' && outcome.why[0] <= 'Z')
      outcome.why[0] = static_cast<char>(outcome.why[0] - 'A' + 'a');
  }
  return outcome;
}

std::string shown_url(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return url;
  const std::size_t host = begin + 3;
  const std::size_t at = url.substr(0, url.find('/', host)).rfind('@');
  return at == std::string::npos || at < host ? url : url.substr(0, host) + url.substr(at + 1);
}

}  // namespace ddprun::data
