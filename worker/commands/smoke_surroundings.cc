#include "worker/commands/smoke_surroundings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ddprun::commands {

namespace fs = std::filesystem;

namespace {

/// Variables that would change what is tried.
constexpr std::array<std::string_view, 5> kForeign{"PET_", "DDPRUN_BACKEND=", "TORCHELASTIC_",
                                                   "TMPDIR=", "OMP_NUM_THREADS="};

}  // namespace

std::vector<std::string> clean_environment(const std::string& temporary) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const bool is_foreign = std::any_of(kForeign.begin(), kForeign.end(),
                                        [&](std::string_view name) { return variable.starts_with(name); });
    if (!is_foreign) variables.emplace_back(variable);
  }
  variables.push_back("TMPDIR=" + temporary);
  variables.push_back("OMP_NUM_THREADS=1");
  return variables;
}

std::set<std::string> orphaned_segments() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::sscanf(name.c_str(), "torch_%d_", &pid) == 1 && ::kill(pid, 0) != 0 && errno == ESRCH)
      names.insert(name);
  }
  return names;
}

bool has_gpu() {
  struct stat status {};
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool is_hidden = visible != nullptr && (*visible == '\0' || std::string_view(visible) == "-1");
  return !is_hidden && ::stat("/dev/nvidia0", &status) == 0;
}

}  // namespace ddprun::commands
