#include "launcher/commands/store.h"

#include "launcher/cli/reply.h"
#include "launcher/process/own_descriptors.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/print.h"
#include "rendezvous/store/server.h"

#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace ddprun::launcher {

int serve_store(const StoreCommand& options) {
  if (const auto raised = raise_open_files("ddprun store", store::kServersOwnDescriptors); !raised)
    return refuse(raised.error());
  const auto logger = make_stderr_logger("ddprun", spdlog::level::warn);
  boost::asio::io_context io(1);
  store::StoreServerOptions server_options;
  server_options.at = options.at;
  server_options.inherited_fd = options.inherited_fd;
  server_options.reserved_descriptors = [] { return store::kServersOwnDescriptors; };
  const Result<std::unique_ptr<store::StoreServer>> server =
      store::StoreServer::open(io, server_options, *logger);
  if (!server) return refuse(server.error());
  // Not before: a signal ends the process while a name is looked up.
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  if (const int code = answer(fmt::format("{}\n", (*server)->port())); code != exit_code::kOk) return code;
  const Gate gate;
  signals.async_wait(gate.pass([&](const boost::system::error_code&, int signal) {
    logger->info("store: signal {}; closing {} connections", signal, (*server)->connection_count());
    (*server)->close();
  }));
  io.run();
  return exit_code::kOk;
}

}  // namespace ddprun::launcher
