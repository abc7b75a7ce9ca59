#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Keeps the last bytes of a stream for the failure report. Pure; takes no memory until something is written.
class TailBuffer {
 public:
  explicit TailBuffer(std::size_t limit) : limit_(limit) {}

  void append(std::string_view data) {
    if (data.size() >= limit_) {
      is_cut_ = is_cut_ || !kept_.empty() || data.size() > limit_;
      kept_.assign(data.substr(data.size() - limit_));
      return;
    }
    kept_.append(data);
    // Cut rarely, so that a byte is moved at most once on average.
    if (kept_.size() > 2 * limit_) {
      kept_.erase(0, kept_.size() - limit_);
      is_cut_ = true;
    }
  }

  /// At most the limit; begins at a line start when something was cut off and a line start is to be found.
  [[nodiscard]] std::string tail() const {
    std::string_view text = kept_;
    const bool is_cut = is_cut_ || text.size() > limit_;
    if (text.size() > limit_) text.remove_prefix(text.size() - limit_);
    const std::size_t newline = text.find('\n');
    if (is_cut && newline != std::string_view::npos && newline + 1 < text.size())
      text.remove_prefix(newline + 1);
    return std::string(text);
  }

 private:
  std::size_t limit_;
  std::string kept_;
  bool is_cut_ = false;
};

}  // namespace ddprun::launcher
