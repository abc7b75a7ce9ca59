#include "launcher/commands/funnel_console.h"

#include "launcher/output/console_log.h"

#include <utility>

namespace ddprun::launcher {

FunnelConsole::FunnelConsole(boost::asio::io_context& io, spdlog::level::level_enum level)
    : output_(io, {}), logger_(make_console_logger(output_, level)), wait_(io, output_) {}

void FunnelConsole::show(ConnectionId connection, const std::string& node,
                         const membership::LogLines& lines) {
  output_.show_remote(connection, node, lines.is_stderr, lines.text, lines.dropped_before);
}

void FunnelConsole::finish(std::function<void()> on_done) {
  output_.finish_remote();
  constexpr auto kPatience = ConsoleWait::Patience::kWhileItTakes;
  wait_.start(kPatience, [this, on_done = std::move(on_done)] {
    for (const LostOutput& lost : output_.settle()) output_.say(to_string(lost));
    wait_.start(kPatience, [this, on_done] {
      output_.close();
      on_done();
    });
  });
}

}  // namespace ddprun::launcher
