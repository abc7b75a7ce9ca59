#pragma once

#include "launcher/output/file_writer.h"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// A FileWriter for each file system that is written to, so that one that hangs does not hold up files of the
/// others: logs on a dead NFS server, say, and the console in a file of this machine.
class FileWriters {
 public:
  explicit FileWriters(boost::asio::io_context& io) : io_(io) {}

  // All as of FileWriter, for all of them.
  FileWriter::Handle add(UniqueFd fd, std::string name, FileWriter::Gaps gaps);
  [[nodiscard]] std::uint64_t waiting_bytes() const;
  [[nodiscard]] std::uint64_t written_bytes() const;
  [[nodiscard]] std::vector<LostOutput> losses() const;
  void abandon();
  void hear_news();
  void set_on_empty(const std::function<void()>& on_empty);
  void close();

 private:
  boost::asio::io_context& io_;
  std::map<dev_t, std::unique_ptr<FileWriter>> writers_;
  std::function<void()> on_empty_;
};

}  // namespace ddprun::launcher
