#include "rendezvous/membership/commands.h"

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/signals.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/connector.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/membership/handshake.h"
#include "rendezvous/store/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

namespace ddprun::membership {
namespace {

int fail(const Error& error) {
  print_all(STDERR_FILENO, fmt::format("ddprun: {}\n", printable(error.message(), std::string::npos)));
  return to_exit_code(error.code());
}

Hello hello_of(const DrainCommandOptions& options) {
  Hello hello{.run_id = options.run_id, .nonce = make_nonce(), .is_control = true};
  hello.node.host = "ddprun drain";
  return hello;
}

/// One question to a coordinator and its answer.
class DrainCall {
 public:
  DrainCall(boost::asio::io_context& io, const DrainCommandOptions& options, std::string secret)
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
              fmt::format("ddprun drain: {}:{} {}\n", printable(options_.host, std::string::npos),
                          options_.port, printable(answer_, std::string::npos)));
    return code_;
  }

 private:
  void greet(boost::asio::ip::tcp::socket socket) {
    channel_ = Channel::make(std::move(socket), {});
    channel_->start(gate_.pass([this](const Message& message) { take(message); }),
                    gate_.pass([this](Loss, const std::string& why) {
                      finish(exit_code::kUnavailable, "did not answer: " + why);
                    }));
    channel_->send_bytes(handshake_.first_bytes());
    timer_.set_after(std::chrono::seconds(3), [this] {
      finish(exit_code::kUnavailable, "did not answer within 3 s; is it a ddprun coordinator?");
    });
  }

  void take(const Message& message) {
    if (!handshake_.is_in()) {
      const AgentHandshake::Step step = handshake_.take(message);
      return std::visit([this](const auto& each) { go_on(each); }, step);
    }
    if (const auto* order = std::get_if<Order>(&message)) {
      finish(exit_code::kOk, "answers: " + order->text);
    } else if (const auto* refused = std::get_if<Refused>(&message)) {
      go_on(*refused);
    }
  }

  void go_on(const Proof& proof) { channel_->send(proof); }
  void go_on(const Welcome&) { channel_->send(DrainRequest{options_.node}); }
  void go_on(const Refused& refused) { finish(exit_code::kUsage, "refuses: " + refused.reason); }
  void go_on(const Error& error) { finish(to_exit_code(error.code()), error.message()); }

  void finish(int code, std::string answer) {
    code_ = code;
    answer_ = std::move(answer);
    timer_.cancel();
    if (channel_) channel_->close();
  }

  boost::asio::io_context& io_;
  const DrainCommandOptions& options_;
  AgentHandshake handshake_;
  Alarm timer_;
  Connector connector_;
  std::shared_ptr<Channel> channel_;
  int code_ = exit_code::kInternal;
  std::string answer_;
  Gate gate_;
};

}  // namespace

int run_coordinator_command(const CoordinatorCommandOptions& options, const MakeLogConsole& make_console) {
  Result<std::string> secret = load_secret(options.secret_file, options.secret);
  if (!secret) return fail(secret.error());
  boost::asio::io_context io(1);
  const std::unique_ptr<LogConsole> console = make_console(io);
  const auto opened = Coordinator::open(io,
                                        {.host = options.host,
                                         .port = options.port,
                                         .spec = options.spec,
                                         .timing = options.timing,
                                         .secret = std::move(*secret),
                                         .reserved_descriptors = [] { return store::kServersOwnDescriptors; }},
                                        console->logger());
  if (!opened) return fail(opened.error());
  Coordinator& coordinator = **opened;
  // Not before: a signal ends the process while a name is looked up.
  const auto signals = SignalSource::open(io, {SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  if (!signals) return fail(signals.error());
  print_all(STDOUT_FILENO, fmt::format("{}\n", coordinator.port()));
  coordinator.set_log_sink([&](std::uint64_t number, const std::string& node, const LogLines& lines) {
    console->show(number, node, lines);
  });
  bool is_closing = false;
  const auto close = [&] {
    if (std::exchange(is_closing, true)) return;
    coordinator.close();
    if (coordinator.job().end().exit_code != 0) console->say(coordinator.job().end().why);
    console->finish([&] { (*signals)->close(); });
  };
  coordinator.set_on_done(close);
  int heard = 0;
  (*signals)->start([&](const ReceivedSignal& signal) {
    if (is_closing) return console->leave();
    if (heard++ > 0 || coordinator.job().state() == JobState::kEnded) {
      coordinator.end_at_once();
      return close();
    }
    const std::string sender = signal.sender == 0 ? "" : fmt::format(" from pid {}", signal.sender);
    coordinator.end_for_all(
        {.exit_code = exit_code::kSignalBase + signal.number,
         .why = fmt::format("the coordinator was told to stop by {}{}", signal_name(signal.number), sender)});
  });
  io.run();
  return coordinator.job().end().exit_code;
}

int run_drain_command(const DrainCommandOptions& options) {
  Result<std::string> secret = load_secret(options.secret_file, options.secret);
  if (!secret) return fail(secret.error());
  boost::asio::io_context io(1);
  return DrainCall(io, options, std::move(*secret)).run();
}

}  // namespace ddprun::membership
