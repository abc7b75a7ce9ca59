#include "launcher/output/file_writers.h"

#include <sys/stat.h>

#include <iterator>
#include <utility>

namespace ddprun::launcher {

FileWriter::Handle FileWriters::add(UniqueFd fd, std::string name, FileWriter::Gaps gaps) {
  struct stat status {};
  ::fstat(fd.get(), &status);
  std::unique_ptr<FileWriter>& writer = writers_[status.st_dev];
  if (!writer) {
    writer = std::make_unique<FileWriter>(io_);
    writer->set_on_empty(on_empty_);
  }
  return writer->add(std::move(fd), std::move(name), gaps);
}

std::uint64_t FileWriters::waiting_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [device, writer] : writers_) bytes += writer->waiting_bytes();
  return bytes;
}

std::uint64_t FileWriters::written_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [device, writer] : writers_) bytes += writer->written_bytes();
  return bytes;
}

std::vector<LostOutput> FileWriters::losses() const {
  std::vector<LostOutput> all;
  for (const auto& [device, writer] : writers_) {
    std::vector<LostOutput> losses = writer->losses();
    all.insert(all.end(), std::make_move_iterator(losses.begin()), std::make_move_iterator(losses.end()));
  }
  return all;
}

void FileWriters::abandon() {
  for (const auto& [device, writer] : writers_) writer->abandon();
}

void FileWriters::hear_news() {
  for (const auto& [device, writer] : writers_) writer->hear_news();
}

void FileWriters::set_on_empty(const std::function<void()>& on_empty) {
  on_empty_ = on_empty;
  for (const auto& [device, writer] : writers_) writer->set_on_empty(on_empty);
}

void FileWriters::close() {
  for (const auto& [device, writer] : writers_) writer->close();
}

}  // namespace ddprun::launcher
