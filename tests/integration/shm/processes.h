#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::testing {

/// What REQUIRE is in a process that is not Catch2's.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Runs `body(rank, store)` in `size` new processes that share a store; true when all of them returned. The
/// message of an exception goes to stderr. Call before libtorch has started threads in this process.
inline bool in_processes(int size,
                         const std::function<void(int, const c10::intrusive_ptr<c10d::Store>&)>& body) {
  std::string folder = (std::filesystem::temp_directory_path() / "integration_shm-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder at " + folder);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      int code = 0;
      try {
        body(rank, c10::make_intrusive<c10d::FileStore>(folder + "/store", size));
      } catch (const std::exception& error) {
        std::cerr << "rank " << rank << ": " << error.what() << std::endl;
        code = 1;
      }
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  bool good = true;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  std::filesystem::remove_all(folder);
  return good;
}

}  // namespace ddprun::testing
