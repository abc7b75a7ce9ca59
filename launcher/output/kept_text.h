#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Text that loses its middle when it becomes too long. Takes only as long as what is added to it.
class KeptText {
 public:
  static constexpr std::size_t kLongest = 48 * 1024;

  void add_line(std::string_view line);
  void add_to_last_line(std::string_view between, std::string_view line);
  void add(const KeptText& other) { add(std::string_view(other.text_)); }
  void clear() { text_.clear(); }
  [[nodiscard]] bool is_empty() const { return text_.empty(); }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_; }

 private:
  void add(std::string_view text);

  std::string text_;
  std::uint64_t copied_ = 0;
};

}  // namespace ddprun::launcher
