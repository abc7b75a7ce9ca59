#pragma once

#include "rendezvous/base/clock.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::data {

/// What a download says: lines, and how far a file is. On a terminal that is a line that is drawn over; elsewhere a
/// line every ten seconds.
class DownloadProgress {
 public:
  enum class Kind { kTerminal, kLog };
  using Write = std::function<void(std::string_view)>;

  DownloadProgress(Kind kind, Write write) : kind_(kind), write_(std::move(write)) {}
  ~DownloadProgress() { clear(); }
  DownloadProgress(const DownloadProgress&) = delete;
  DownloadProgress& operator=(const DownloadProgress&) = delete;

  void line(const std::string& text);
  /// `all` 0: nobody knows. Speed is that since the first call for `name`.
  void progress(const std::string& name, std::int64_t have, std::int64_t all, TimePoint now);

 private:
  void clear();

  Kind kind_;
  Write write_;
  bool is_drawn_ = false;
  std::string name_;
  std::int64_t first_ = 0;  ///< bytes at `began_`
  TimePoint began_{};
  TimePoint next_{};
};

}  // namespace ddprun::data
