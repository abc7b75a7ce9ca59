#include "rendezvous/membership/rendezvous.h"

#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/membership/own_addresses.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr Duration kNoticeAfter = std::chrono::milliseconds(1200);
constexpr Duration kHurry = std::chrono::seconds(1);  // to hear the end

}  // namespace

bool needs_addresses(CoordinatorPlace place, const std::string& host) {
  if (place == CoordinatorPlace::kElsewhere) return false;
  return is_loopback(host) || (place == CoordinatorPlace::kIfOurs && host != host_name());
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(boost::asio::io_context& io,
                                                     const RendezvousOptions& options, Listener& listener,
                                                     Logger& logger) {
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(io, listener));
  const bool is_local = is_loopback(options.at.host);
  const bool is_ours =
      options.place == CoordinatorPlace::kHere ||
      (options.place == CoordinatorPlace::kIfOurs &&
       (is_local || options.at.host == host_name() || is_this_machine(options.at.addresses)));
  rendezvous->port_ = options.at.port;
  std::string why_not_here;
  if (is_ours) {
    const CoordinatorOptions coordinator{
        .at = is_local ? options.at : ListenAt{.port = options.at.port},
        .spec = options.spec,
        .timing = options.timing,
        .secret = options.secret,
        .reserved_descriptors = [&listener] { return listener.reserved_descriptors(); }};
    auto opened = Coordinator::open(io, coordinator, logger);
    if (opened) {
      rendezvous->coordinator_ = std::move(*opened);
      rendezvous->port_ = rendezvous->coordinator_->port();
      rendezvous->coordinator_->set_log_sink(
          [&listener](ConnectionId connection, const std::string& node, const LogLines& lines) {
            listener.remote_lines(connection, node, lines);
          });
    } else if (options.place == CoordinatorPlace::kHere) {
      const Error& error = opened.error();
      return Error(error.code(),
                   fmt::format("rendezvous: {}; a node whose coordinator runs apart joins it with "
                               "--rdzv-conf is_host=false",
                               error.message()));
    } else {
      why_not_here =
          opened.error().message();  // another agent of this machine may be there; if none is, it is said
    }
  }
  if (rendezvous->port_.value() == 0) {
    return Error(
        ErrorCode::kUsage,
        fmt::format("rendezvous: {} port 0 lets the kernel choose where the coordinator runs, which is not "
                    "here; name the port that ddprun said there",
                    options.at.host));
  }
  MemberOptions member{.host = options.at.host,
                       .port = rendezvous->port_,
                       .spec = options.spec,
                       .node = options.node,
                       .secret = options.secret,
                       .why_not_here = std::move(why_not_here),
                       .join_timeout = options.timing.join_timeout,
                       .rejoin_timeout = options.timing.rejoin_timeout};
  member.node.hosts_coordinator = rendezvous->has_coordinator();
  if (rendezvous->has_coordinator()) member.also_try = {"127.0.0.1", "::1"};
  rendezvous->member_ = Member::open(io, std::move(member), listener);
  return rendezvous;
}

void Rendezvous::close(const JobEnd& end, Duration patience, std::function<void()> on_closed) {
  member_->close();
  if (!coordinator_) return await_farewell(std::move(on_closed));
  on_closed_ = std::move(on_closed);
  coordinator_->end_for_all(end);
  if (coordinator_->is_done()) return close_coordinator();
  coordinator_->set_on_done([this] { close_coordinator(); });
  timer_.set_after(patience, [this] { close_anyway(); });
  notice_.set_after(kNoticeAfter, [this, patience] {
    listener_.heard(
        Waiting{fmt::format("waiting up to {} for {} to end; Ctrl-C or SIGTERM ends this node "
                            "without it",
                            format_duration(patience), coordinator_->awaited())});
  });
}

void Rendezvous::await_farewell(std::function<void()> on_closed) {
  if (!member_->await_farewell([this] { end_farewell(); })) return on_closed();
  on_closed_ = std::move(on_closed);
  notice_.set_after(kNoticeAfter, [this] {
    listener_.heard(Waiting{
        "waiting for the coordinator to take what is left; Ctrl-C or SIGTERM ends this node without that"});
  });
}

void Rendezvous::end_farewell() {
  notice_.cancel();
  member_->cut_farewell();
  std::exchange(on_closed_, nullptr)();
}

bool Rendezvous::hurry() {
  if (!on_closed_) return false;
  if (!coordinator_) return end_farewell(), true;
  notice_.cancel();
  if (std::exchange(has_hurried_, true)) return close_anyway(), true;
  timer_.set_after(kHurry, [this] { close_anyway(); });
  coordinator_->end_at_once();
  return true;
}

void Rendezvous::close_anyway() {
  listener_.heard(
      Waiting{fmt::format("this node ends without waiting any longer for {}", coordinator_->awaited())});
  close_coordinator();
}

void Rendezvous::close_coordinator() {
  timer_.cancel();
  notice_.cancel();
  coordinator_->close();
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

}  // namespace ddprun::membership
