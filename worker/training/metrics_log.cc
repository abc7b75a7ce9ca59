#include "worker/training/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace ddprun::training {

Result<MetricsLog> MetricsLog::open(const std::vector<std::string>& paths) {
  MetricsLog log;
  for (const std::string& path : paths) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!fd) return os_error("cannot open metrics file " + path, errno);
    log.files_.push_back(std::move(fd));
  }
  return log;
}

void MetricsLog::write(const std::string& event, const nlohmann::json& fields) {
  if (files_.empty()) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json record{{"event", event}, {"time", std::round(now.count() * 1000) / 1000}};
  for (const auto& [key, value] : fields.items()) record[key] = value;
  const std::string line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (const UniqueFd& file : files_) {
    if (::write(file.get(), line.data(), line.size()) < 0) continue;
  }
}

}  // namespace ddprun::training
