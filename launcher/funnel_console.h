#pragma once

#include "rendezvous/membership/commands.h"

#include <memory>

namespace ddprun::launcher {

/// Our stdout and stderr, with a logger and as the end of --log-funnel, for `ddprun coordinator`. What they
/// do not take waits, in bounds; at the end a console that takes nothing for ten seconds is left.
std::unique_ptr<membership::LogConsole> make_funnel_console(boost::asio::io_context& io,
                                                            spdlog::level::level_enum level);

}  // namespace ddprun::launcher
