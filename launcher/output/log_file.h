#pragma once

#include "launcher/output/file_writers.h"
#include "rendezvous/base/result.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher {

/// mkdir -p, the last one for nobody but us, as torchrun's: what workers print is theirs. Ours, for
/// std::filesystem::create_directories, which makes those above it, takes no mode. kOs when it cannot be made.
Result<void> make_directories(const std::string& path);

/// Removes a job's log directory, those of its attempts and those of their workers, as far as nothing is in
/// them.
void remove_empty_log_directories(const std::string& log_root);

/// Gives a file that an earlier run left another name (error.json.1, .2, …), so that it is neither lost nor
/// taken for new.
void set_aside(const std::string& path);

/// A log file that is written to as far as the disk allows, by the FileWriter's thread. Neither a full disk
/// nor one that hangs ends a job: what cannot be written is counted, said once, and marked in the file at the
/// place where it is missing as soon as there is room again.
class LogFile {
 public:
  /// Creates it, or appends to what is there: nothing is ever truncated. Errors kOs. `files` outlives it.
  static Result<LogFile> open(FileWriters& files, const std::string& path);

  /// Never blocks.
  void write(std::string_view data) { file_.write(data); }

  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Called with a sentence when bytes are lost for the first time.
  void set_on_trouble(std::function<void(const std::string&)> on_trouble) {
    file_.set_on_trouble(std::move(on_trouble));
  }

 private:
  LogFile(FileWriter::Handle file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  FileWriter::Handle file_;
  std::string path_;
};

/// The last bytes of a file, for a worker that writes its stderr to one itself; empty when it cannot be read.
std::string read_tail(const std::string& path, std::size_t limit);

}  // namespace ddprun::launcher
