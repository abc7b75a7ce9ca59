#include "rendezvous/store/store_command.h"

#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/store/server.h"

#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace ddprun::store {

int run_store_command(const StoreCommandOptions& options, Logger& logger) {
  boost::asio::io_context io(1);
  StoreServerOptions server_options;
  server_options.host = options.host;
  server_options.port = options.port;
  server_options.inherited_fd = options.inherited_fd;
  server_options.reserved_descriptors = [] { return kServersOwnDescriptors; };
  const Result<std::unique_ptr<StoreServer>> server = StoreServer::open(io, server_options, logger);
  if (!server) {
    print_all(STDERR_FILENO,
              fmt::format("ddprun: {}\n", ddprun::printable(server.error().message(), std::string::npos)));
    return to_exit_code(server.error().code());
  }
  // Not before: a signal ends the process while a name is looked up.
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  print_all(STDOUT_FILENO, fmt::format("{}\n", (*server)->port()));
  const Gate gate;
  signals.async_wait(gate.pass([&](const boost::system::error_code&, int signal) {
    logger.info("store: signal {}; closing {} connections", signal, (*server)->connection_count());
    (*server)->close();
  }));
  io.run();
  return exit_code::kOk;
}

}  // namespace ddprun::store
