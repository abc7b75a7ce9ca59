#include "launcher/funnel_console.h"

#include "launcher/agent/console_wait.h"
#include "launcher/process/output.h"

#include <string>

namespace ddprun::launcher {
namespace {

class FunnelConsole final : public membership::LogConsole {
 public:
  explicit FunnelConsole(boost::asio::io_context& io) : output_(io, {}), wait_(io, output_) {}

  void show(std::uint64_t number, const std::string& node, const membership::LogLines& lines) override {
    output_.show_remote(number, node, lines.is_stderr, lines.text, lines.dropped_before);
  }
  void finish() override {
    output_.finish_remote();
    wait_.start([this] { output_.close(); });
  }

 private:
  JobOutput output_;
  ConsoleWait wait_;
};

}  // namespace

std::unique_ptr<membership::LogConsole> make_funnel_console(boost::asio::io_context& io) {
  return std::make_unique<FunnelConsole>(io);
}

}  // namespace ddprun::launcher
