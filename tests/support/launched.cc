#include "tests/support/launched.h"

#include "tests/support/catch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace ddprun::testing {
namespace {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    throw std::runtime_error(std::string(name) + " is not set: run this test through ctest");
  return value;
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// True at the end of the stream.
bool read_some(UniqueFd& fd, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
  if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
  if (count <= 0 && errno != EINTR) fd.reset();
  return !fd;
}

}  // namespace

void nap() { ::usleep(2000); }

TempDirectory::TempDirectory() {
  const char* root = std::getenv("TMPDIR");
  path_ = std::string(root == nullptr ? "/tmp" : root) + "/ddprun-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Gate::Gate() : path_(directory_.path() + "/gate") {
  if (::mkfifo(path_.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + path_);
  both_ends_.reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
}

void Gate::open() const {
  const std::string lines(64, '\n');
  if (::write(both_ends_.get(), lines.data(), lines.size()) < 0) throw std::runtime_error("write " + path_);
}

std::string read_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  while (file && !read_some(file, text)) {
  }
  return text;
}

std::vector<pid_t> processes_with(std::string_view token) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (pid == ::getpid()) continue;
    const std::string root = entry.path().string();
    const std::string texts = read_file(root + "/cmdline") + read_file(root + "/environ");
    if (texts.find(token) == std::string::npos) continue;
    const std::string stat = read_file(root + "/stat");
    const std::size_t state = stat.rfind(") ");
    if (state != std::string::npos && stat[state + 2] != 'Z') found.push_back(pid);
  }
  return found;
}

Launched::Launched(std::vector<std::string> argv, const LaunchOptions& options) {
  Pipe out = open_pipe();
  Pipe err = open_pipe();
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    if (options.takes_terminal) ::setsid();
    ::dup2(options.stdin_fd < 0 ? null : options.stdin_fd, 0);
    ::dup2(options.stdout_fd < 0 ? out.write_end.get() : options.stdout_fd, 1);
    ::dup2(options.stderr_fd < 0 ? err.write_end.get() : options.stderr_fd, 2);
    if (options.takes_terminal) ::ioctl(0, TIOCSCTTY, 0);
    if (options.ignores_hangup) std::signal(SIGHUP, SIG_IGN);
    ::close_range(3, ~0U, 0);
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  out_fd_ = std::move(out.read_end);
  err_fd_ = std::move(err.read_end);
}

Launched::~Launched() {
  if (code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Launched::signal(int number) const { ::kill(pid_, number); }

// Waits until something can be read or the program has ended; false when the time is over.
bool Launched::pump(std::chrono::steady_clock::time_point until) {
  std::array<pollfd, 3> sources{
      {{out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}}};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  if (left <= 0 || ::poll(sources.data(), sources.size(), static_cast<int>(left)) <= 0) return false;
  const bool has_output = sources[0].revents != 0 || sources[1].revents != 0;
  if (sources[0].revents != 0) read_some(out_fd_, out_);
  if (sources[1].revents != 0) read_some(err_fd_, err_);
  if (!has_output && sources[2].revents != 0) {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return true;
}

std::string Launched::read_line() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    const std::size_t newline = out_.find('\n');
    if (newline != std::string::npos) {
      std::string line = out_.substr(0, newline);
      out_.erase(0, newline + 1);
      return line;
    }
    if (code_ || !pump(until)) {
      FAIL("no further line on stdout; stderr: " << err_);
      return {};
    }
  }
}

void Launched::wait_for_err(std::string_view text) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (err_.find(text) == std::string::npos) {
    if (code_ || !pump(until)) {
      FAIL("no \"" << text << "\" on stderr: " << err_);
      return;
    }
  }
}

int Launched::wait(std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!code_) {
    if (!pump(until)) {
      FAIL("still running after " << limit.count() << " s; stderr: " << err_);
      return -1;
    }
  }
  return *code_;
}

std::vector<std::string> ddprun_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), environment_value("DDPRUN_BIN"));
  return arguments;
}

std::string program(const std::string& name) { return environment_value("DDPRUN_PROGRAMS") + "/" + name; }

}  // namespace ddprun::testing
