#include "rendezvous/membership/rendezvous.h"

#include "rendezvous/membership/own_addresses.h"

#include <fmt/format.h>

#include <utility>

namespace ddprun::membership {
Result<std::unique_ptr<Rendezvous>> Rendezvous::open(boost::asio::io_context& io,
                                                     const RendezvousOptions& options, Listener& listener,
                                                     Logger& logger) {
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(io));
  const bool is_ours = options.place == CoordinatorPlace::kHere ||
                       (options.place == CoordinatorPlace::kIfOurs && is_this_machine(options.host));
  rendezvous->port_ = options.port;
  if (is_ours) {
    const CoordinatorOptions coordinator{.host = is_loopback(options.host) ? options.host : std::string(),
                                         .port = options.port,
                                         .spec = options.spec,
                                         .timing = options.timing,
                                         .secret = options.secret,
                                         .reserved_descriptors = options.reserved_descriptors};
    auto opened = Coordinator::open(io, coordinator, logger);
    if (opened) {
      rendezvous->coordinator_ = std::move(*opened);
      rendezvous->port_ = rendezvous->coordinator_->port();
    } else if (options.place == CoordinatorPlace::kHere) {
      return opened.error().with("rendezvous");
    }
  }
  if (rendezvous->port_.value() == 0) {
    return Error(
        ErrorCode::kUsage,
        fmt::format("rendezvous: {} port 0 lets the kernel choose where the coordinator runs, which is not "
                    "here; name the port that ddprun said there",
                    options.host));
  }
  MemberOptions member{.host = options.host,
                       .port = rendezvous->port_,
                       .spec = options.spec,
                       .node = options.node,
                       .secret = options.secret,
                       .join_timeout = options.timing.join_timeout,
                       .rejoin_timeout = options.timing.rejoin_timeout};
  if (rendezvous->has_coordinator()) member.also_try = {"127.0.0.1", "::1"};
  rendezvous->member_ = Member::open(io, std::move(member), listener);
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
