#include "launcher/cli/reply.h"
#include "launcher/commands/drain.h"
#include "launcher/process/own_descriptors.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/connector.h"
#include "rendezvous/membership/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace ddprun::launcher {
namespace {

membership::Hello hello_of(const DrainCommand& options) {
  membership::Hello hello{.run_id = options.run_id, .nonce = membership::make_nonce(), .is_control = true};
  hello.node.host = "ddprun drain";
  return hello;
}

/// One question to a coordinator and its answer.
class DrainCall {
 public:
  DrainCall(boost::asio::io_context& io, const DrainCommand& options, std::string secret)
      : io_(io),
        options_(options),
        handshake_(hello_of(options), std::move(secret)),
        timer_(io),
        connector_(io, options.host, options.port, {}) {}

  int run() {
    connector_.start([this](std::optional<boost::asio::ip::tcp::socket> socket, const std::string& tried) {
      if (socket) return greet(std::move(*socket));
      finish(exit_code::kUnavailable, "cannot be reached: " + tried);
    });
    io_.run();
    print_all(STDERR_FILENO,
              fmt::format("ddprun drain: {}:{} {}\n", ddprun::printable(options_.host, std::string::npos),
                          options_.port, ddprun::printable(answer_, std::string::npos)));
    return code_;
  }

 private:
  void greet(boost::asio::ip::tcp::socket socket) {
    channel_ = membership::Channel::make(std::move(socket), {});
    channel_->start(gate_.pass([this](const membership::Message& message) { handle(message); }),
                    gate_.pass([this](membership::Loss, const std::string& why) {
                      finish(exit_code::kUnavailable, "did not answer: " + why);
                    }));
    channel_->send_bytes(handshake_.first_bytes());
    timer_.set_after(std::chrono::seconds(3), [this] {
      finish(exit_code::kUnavailable, "did not answer within 3 s; is it a ddprun coordinator?");
    });
  }

  void handle(const membership::Message& message) {
    if (!handshake_.is_in()) {
      const membership::AgentHandshake::Step step = handshake_.handle(message);
      return std::visit([this](const auto& each) { go_on(each); }, step);
    }
    if (const auto* order = std::get_if<membership::Order>(&message)) {
      finish(exit_code::kOk, "answers: " + order->text);
    } else if (const auto* refused = std::get_if<membership::Refused>(&message)) {
      go_on(*refused);
    }
  }

  void go_on(const membership::Proof& proof) { channel_->send(proof); }
  void go_on(const membership::Welcome&) { channel_->send(membership::DrainRequest{options_.node}); }
  void go_on(const membership::Refused& refused) { finish(exit_code::kUsage, "refuses: " + refused.reason); }
  void go_on(const Error& error) { finish(to_exit_code(error.code()), error.message()); }

  void finish(int code, std::string answer) {
    code_ = code;
    answer_ = std::move(answer);
    timer_.cancel();
    if (channel_) channel_->close();
  }

  boost::asio::io_context& io_;
  const DrainCommand& options_;
  membership::AgentHandshake handshake_;
  Alarm timer_;
  membership::Connector connector_;
  std::shared_ptr<membership::Channel> channel_;
  int code_ = exit_code::kInternal;
  std::string answer_;
  Gate gate_;
};

}  // namespace

int drain_through_coordinator(const DrainCommand& options) {
  Result<std::string> secret = membership::load_secret(options.secret);
  if (!secret) return refuse(secret.error());
  boost::asio::io_context io(1);
  return DrainCall(io, options, std::move(*secret)).run();
}

}  // namespace ddprun::launcher
