#include "launcher/output/files_beside.h"

#include <utility>

namespace ddprun::launcher {

void FilesBeside::make(std::string name, std::size_t bytes, const BesideLoop<Result<void>>::Work& work,
                       std::function<void(const Result<void>&)> on_done) {
  waiting_.push_back({std::move(name), bytes, std::make_unique<BesideLoop<Result<void>>>(io_)});
  BesideLoop<Result<void>>& beside = *waiting_.back().work;
  beside.start(
      work, [&work](int) { return work(); },
      [this, &beside, on_done = std::move(on_done)](const Result<void>& result) {
        std::erase_if(waiting_, [&](const File& file) { return file.work.get() == &beside; });
        on_done(result);
        if (waiting_.empty() && on_empty_) on_empty_();
      });
}

std::vector<LostOutput> FilesBeside::abandon() {
  std::vector<LostOutput> lost;
  for (const File& file : waiting_) {
    lost.push_back({file.name, file.bytes, "its file system did not take it in time"});
  }
  waiting_.clear();
  return lost;
}

}  // namespace ddprun::launcher
