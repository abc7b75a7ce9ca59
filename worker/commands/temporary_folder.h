#pragma once

#include <string>

namespace ddprun::commands {

/// An empty folder below TMPDIR that goes with this object.
class TemporaryFolder {
 public:
  /// `stem` is a part of its name.
  /// Errors  Exception kOs: it cannot be made.
  explicit TemporaryFolder(const std::string& stem);
  ~TemporaryFolder() { remove(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Empty, or why it cannot go.
  std::string remove();
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ddprun::commands
