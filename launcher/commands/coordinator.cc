#include "launcher/commands/coordinator.h"

#include "launcher/cli/reply.h"
#include "launcher/commands/funnel_console.h"
#include "launcher/process/own_descriptors.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/signals.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/store/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace ddprun::launcher {

int coordinate(const CoordinatorCommand& options, spdlog::level::level_enum level) {
  if (const auto raised = raise_open_files("ddprun coordinator", store::kServersOwnDescriptors); !raised)
    return refuse(raised.error());
  Result<std::string> secret = membership::load_secret(options.secret);
  if (!secret) return refuse(secret.error());
  boost::asio::io_context io(1);
  FunnelConsole console(io, level);
  const auto opened =
      membership::Coordinator::open(io,
                                    {.at = options.at,
                                     .spec = options.spec,
                                     .timing = options.timing,
                                     .secret = std::move(*secret),
                                     .reserved_descriptors = [] { return store::kServersOwnDescriptors; }},
                                    console.logger());
  if (!opened) return refuse(opened.error());
  membership::Coordinator& coordinator = **opened;
  // Not before: a signal ends the process while a name is looked up.
  const auto signals = SignalSource::open(io, {SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  if (!signals) return refuse(signals.error());
  if (const int code = answer(fmt::format("{}\n", coordinator.port())); code != exit_code::kOk) return code;
  coordinator.set_log_sink([&](ConnectionId connection, const std::string& node,
                               const membership::LogLines& lines) { console.show(connection, node, lines); });
  bool is_closing = false;
  const auto close = [&] {
    if (std::exchange(is_closing, true)) return;
    coordinator.close();
    if (coordinator.job().end().exit_code != 0) console.say(coordinator.job().end().why);
    console.finish([&] { (*signals)->close(); });
  };
  coordinator.set_on_done(close);
  int heard = 0;
  (*signals)->start([&](const ReceivedSignal& signal) {
    if (is_closing) return console.leave();
    if (heard++ > 0 || coordinator.job().state() == membership::JobPhase::kEnded) {
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

}  // namespace ddprun::launcher
