#include "launcher/commands/kept_files.h"

#include "rendezvous/base/env_contract.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddprun::launcher {

Result<KeptFiles> KeptFiles::make(int workers) {
  KeptFiles memory;
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers) * kKeptFiles; ++i) {
    UniqueFd file(::memfd_create(kKeptMemoryName, MFD_CLOEXEC));
    if (!file)
      return os_error("cannot make memory that outlives a worker (/checkpoint/memory_every_steps)", errno);
    memory.files_.push_back(std::move(file));
  }
  return memory;
}

std::vector<std::string> KeptFiles::names() const {
  std::vector<std::string> names(files_.size() / kKeptFiles);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::string& name = names[i / kKeptFiles];
    if (!name.empty()) name += ' ';
    name += fmt::format("/proc/{}/fd/{}", ::getpid(), files_[i].get());
  }
  return names;
}

}  // namespace ddprun::launcher
