#include "worker/training/observers/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

namespace ddprun::training {

Result<void> MetricsLog::append_to(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return os_error("cannot open metrics file " + path, errno);
  files_.push_back({.path = path, .fd = std::move(fd)});
  return ok();
}

void MetricsLog::write(const std::string& event, const nlohmann::json& fields) {
  if (files_.empty()) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json record{{"event", event}, {"time", std::round(now.count() * 1000) / 1000}};
  for (const auto& [key, value] : fields.items()) record[key] = value;
  const std::string line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (File& file : files_) append(file, line);
}

void MetricsLog::append(File& file, const std::string& line) const {
  const std::string text = (file.ends_in_part ? "\n" : "") + line;
  const ssize_t written = ::write(file.fd.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    file.ends_in_part = false;
    return;
  }
  // A disk that has room for a part takes that, and has no errno.
  const int error = written < 0 ? errno : ENOSPC;
  file.ends_in_part = file.ends_in_part || written > 0;
  if (file.lost++ > 0) return;
  warn_(os_error("cannot write to metrics file " + file.path, error).message() + "; the training goes on");
}

}  // namespace ddprun::training
