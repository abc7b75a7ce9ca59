#include "launcher/output/console_log.h"

#include "rendezvous/base/printable.h"

#include <spdlog/sinks/base_sink.h>

#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

class ConsoleSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit ConsoleSink(JobOutput& output) : output_(output) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string words =
        ddprun::printable({message.payload.data(), message.payload.size()}, std::string::npos);
    spdlog::details::log_msg shown = message;
    shown.payload = words;
    spdlog::memory_buf_t line;
    formatter_->format(shown, line);
    output_.write_launcher_line({line.data(), line.size()});
  }
  void flush_() override {}

 private:
  JobOutput& output_;
};

}  // namespace

std::shared_ptr<Logger> make_console_logger(JobOutput& output, spdlog::level::level_enum level) {
  auto logger = std::make_shared<Logger>("ddprun", std::make_shared<ConsoleSink>(output));
  logger->set_pattern("%H:%M:%S.%e %^%-5l%$ %n: %v");
  logger->set_level(level);
  return logger;
}

}  // namespace ddprun::launcher
