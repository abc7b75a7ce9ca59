#include "worker/data/download_progress.h"

#include "worker/data/remote_set.h"

#include <fmt/format.h>

#include <chrono>

namespace ddprun::data {

using namespace std::chrono_literals;

void DownloadProgress::clear() {
  if (is_drawn_) write_("\r\x1b[K");
  is_drawn_ = false;
}

void DownloadProgress::line(const std::string& text) {
  clear();
  write_("data: " + text + "\n");
}

void DownloadProgress::progress(const std::string& name, std::int64_t have, std::int64_t all, TimePoint now) {
  const auto pause = kind_ == Kind::kTerminal ? 100ms : 10s;
  if (name != name_) {
    name_ = name;
    first_ = have;
    began_ = now;
    next_ = now + pause;
  }
  if (now < next_) return;
  next_ = now + pause;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double rate = static_cast<double>(have - first_) / seconds;
  std::string text = fmt::format("{}: {}", name, size_in_words(have));
  if (all > 0) text += fmt::format(" of {} ({} %)", size_in_words(all), 100 * have / all);
  text += fmt::format(", {}/s", size_in_words(static_cast<std::int64_t>(rate)));
  if (kind_ == Kind::kLog) return line(text);
  write_("\r\x1b[K" + text);
  is_drawn_ = true;
}

}  // namespace ddprun::data
