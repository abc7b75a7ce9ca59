#include "launcher/why/look/python_stack.h"

#include "launcher/process/run_program.h"
#include "launcher/why/look/proc_look.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_program(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string first_line(const std::string& text) {
  const std::size_t begin = text.starts_with("Error: ") ? 7 : 0;
  return text.substr(begin,
                     text.find('\n') == std::string::npos ? std::string::npos : text.find('\n') - begin);
}

/// Where the interpreter's environment has its programs: argv[0]'s folder, which a venv's python has, and the real
/// one's.
std::vector<std::string> folders_of_interpreter(pid_t pid) {
  std::vector<std::string> folders;
  const std::string command_line = read_text(fmt::format("/proc/{}/cmdline", pid));
  const std::string first = command_line.substr(0, command_line.find('\0'));
  std::error_code unreadable;
  if (first.find('/') != std::string::npos) {
    const fs::path folder = fs::read_symlink(fmt::format("/proc/{}/cwd", pid), unreadable);
    folders.push_back((folder / first).parent_path().string());
  }
  const fs::path real = fs::read_symlink(fmt::format("/proc/{}/exe", pid), unreadable);
  if (!unreadable) folders.push_back(real.parent_path().string());
  return folders;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int integer_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int>() : 0;
}

}  // namespace

std::string find_py_spy(pid_t pid) {
  std::vector<std::string> folders = folders_of_interpreter(pid);
  const char* const path = std::getenv("PATH");
  std::istringstream words(path != nullptr ? path : "");
  for (std::string folder; std::getline(words, folder, ':');) folders.push_back(folder);
  for (const std::string& folder : folders) {
    const std::string candidate = folder + "/py-spy";
    if (!folder.empty() && is_program(candidate)) return candidate;
  }
  return {};
}

bool runs_python(pid_t pid) {
  std::error_code unreadable;
  const std::string program =
      fs::read_symlink(fmt::format("/proc/{}/exe", pid), unreadable).filename().string();
  if (program.find("python") != std::string::npos) return true;
  return has_mapped(pid, "/libpython");
}

PythonStacks parse_py_spy(const std::string& json, pid_t main_thread) {
  PythonStacks stacks;
  const Json threads = Json::parse(json, nullptr, false);
  if (!threads.is_array()) {
    stacks.problem = "py-spy printed something that is no list of threads";
    return stacks;
  }
  for (const Json& thread : threads) {
    PythonThread& python = stacks.threads.emplace_back();
    python.tid = integer_of(thread, "os_thread_id");
    python.name = text_of(thread, "thread_name");
    python.owns_gil = thread.value("owns_gil", false);
    if (!thread.contains("frames") || !thread["frames"].is_array()) continue;
    for (const Json& frame : thread["frames"]) {
      python.frames.push_back({.function = text_of(frame, "name"),
                               .file = text_of(frame, "filename"),
                               .line = integer_of(frame, "line"),
                               .source = {}});
    }
  }
  std::stable_partition(stacks.threads.begin(), stacks.threads.end(), [&](const PythonThread& thread) {
    return thread.tid == main_thread || (thread.tid == 0 && thread.name == "MainThread");
  });
  return stacks;
}

PythonStacks python_stacks(const std::string& py_spy, pid_t pid, std::chrono::milliseconds limit) {
  // A stack that changes while it is read can fail.
  ProgramOutput output;
  for (int attempt = 0; attempt < 3; ++attempt) {
    output = run_program({py_spy, "dump", "--nonblocking", "--json", "--pid", std::to_string(pid)}, limit);
    if (!output.has_ended)
      return {.threads = {}, .problem = fmt::format("py-spy did not answer within {} ms", limit.count())};
    if (output.code == 0) return parse_py_spy(output.out, pid);
  }
  return {.threads = {}, .problem = fmt::format("py-spy: {}", first_line(output.err))};
}

void read_source_lines(pid_t pid, std::vector<PythonThread>& threads) {
  constexpr std::uintmax_t kLongestFile = 4 << 20;
  std::map<std::string, std::vector<std::string>> files;
  for (PythonThread& thread : threads) {
    for (Frame& frame : thread.frames) {
      if (!frame.file.starts_with('/') || frame.line <= 0) continue;
      auto [found, is_new] = files.try_emplace(frame.file);
      const std::string path = fmt::format("/proc/{}/root{}", pid, frame.file);
      std::error_code unreadable;
      if (is_new && fs::is_regular_file(path, unreadable) &&
          fs::file_size(path, unreadable) <= kLongestFile) {
        std::istringstream lines(read_text(path));
        for (std::string line; std::getline(lines, line);) found->second.push_back(line);
      }
      const auto index = static_cast<std::size_t>(frame.line) - 1;
      if (index < found->second.size()) frame.source = found->second[index];
    }
  }
}

}  // namespace ddprun::launcher::why
