#include "rendezvous/membership/rendezvous.h"

#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>

namespace ddprun::membership {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

bool can_bind(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = ::bind(fd, address.ai_addr, address.ai_addrlen) == 0;
  ::close(fd);
  return bound;
}

std::string own_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool is_loopback(const std::string& host) {
  boost::system::error_code not_numeric;
  const auto address = boost::asio::ip::make_address(host, not_numeric);
  return host == "localhost" || (!not_numeric && address.is_loopback());
}

}  // namespace

bool is_this_machine(const std::string& host) {
  if (is_loopback(host) || host == own_name()) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (can_bind(*each)) return true;
  }
  return false;
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(boost::asio::io_context& io,
                                                     const RendezvousOptions& options, Listener& listener,
                                                     Logger& logger) {
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(io));
  const bool is_ours = options.place == CoordinatorPlace::kHere ||
                       (options.place == CoordinatorPlace::kIfOurs && is_this_machine(options.host));
  Port port = options.port;
  if (is_ours) {
    const CoordinatorOptions coordinator{.host = is_loopback(options.host) ? options.host : std::string(),
                                         .port = options.port,
                                         .spec = options.spec,
                                         .timing = options.timing,
                                         .secret = options.secret};
    auto opened = Coordinator::open(io, coordinator, logger);
    if (opened) {
      rendezvous->coordinator_ = std::move(*opened);
      port = rendezvous->coordinator_->port();
      if (options.secret.empty() && !is_loopback(options.host)) {
        logger.warn("no job secret: whoever reaches port {} of this machine can join job {}", port,
                    options.spec.run_id);
      }
    } else if (options.place == CoordinatorPlace::kHere) {
      return opened.error().with("rendezvous");
    }
  }
  MemberOptions member{.host = options.host,
                       .port = port,
                       .spec = options.spec,
                       .node = options.node,
                       .secret = options.secret,
                       .join_timeout = options.timing.join_timeout,
                       .rejoin_timeout = options.timing.rejoin_timeout};
  if (rendezvous->has_coordinator()) member.also_try = {"127.0.0.1", "::1"};
  rendezvous->member_ = Member::open(io, std::move(member), listener, logger);
  return rendezvous;
}

void Rendezvous::close(const JobEnd& end, Duration patience, std::function<void()> on_closed) {
  member_->close();
  if (!coordinator_) return on_closed();
  on_closed_ = std::move(on_closed);
  coordinator_->end_for_all(end);
  if (coordinator_->is_done()) return close_coordinator();
  timer_.set_after(patience, [this] { close_coordinator(); });
  coordinator_->set_on_done([this] { close_coordinator(); });
}

void Rendezvous::close_coordinator() {
  timer_.cancel();
  coordinator_->close();
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

}  // namespace ddprun::membership
