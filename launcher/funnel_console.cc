#include "launcher/funnel_console.h"

#include "launcher/agent/console_log.h"
#include "launcher/agent/console_wait.h"
#include "launcher/process/output.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

class FunnelConsole final : public membership::LogConsole {
 public:
  FunnelConsole(boost::asio::io_context& io, spdlog::level::level_enum level)
      : output_(io, {}), logger_(make_console_logger(output_, level)), wait_(io, output_) {}

  Logger& logger() override { return *logger_; }
  void say(std::string_view line) override { output_.say(line); }

  void show(std::uint64_t number, const std::string& node, const membership::LogLines& lines) override {
    output_.show_remote(number, node, lines.is_stderr, lines.text, lines.dropped_before);
  }
  void finish(std::function<void()> on_done) override {
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
  void leave() override { wait_.end(); }

 private:
  JobOutput output_;
  std::shared_ptr<Logger> logger_;
  ConsoleWait wait_;
};

}  // namespace

std::unique_ptr<membership::LogConsole> make_funnel_console(boost::asio::io_context& io,
                                                            spdlog::level::level_enum level) {
  return std::make_unique<FunnelConsole>(io, level);
}

}  // namespace ddprun::launcher
