#include "launcher/output/output.h"

#include "launcher/process/pipe.h"
#include "rendezvous/base/printable.h"

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kScratchBytes = 64 * 1024;
// Of a stderr that goes to its file without us: a traceback and a good deal of what may follow it. All of that
// takes milliseconds, of each worker of the node; so it is read only where nothing is found in the last part.
constexpr std::size_t kSearchedFileBytes = 1024 * 1024;
constexpr std::size_t kSearchedFirstBytes = 64 * 1024;
static_assert(kSearchedFirstBytes >= TracebackScanner::kLongest);
constexpr auto kPromptDelay = std::chrono::milliseconds(100);
constexpr auto kFoldWindow = std::chrono::milliseconds(500);

// Opened anew, for asio makes what it waits for non-blocking, and our shell shares what it gave us.
int open_keyboard() {
  const int own =
      ::open(fmt::format("/proc/self/fd/{}", STDIN_FILENO).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  return own >= 0 ? own : ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
}

bool is_shown(const WorkerSpec& spec) { return spec.out.to_console || spec.err.to_console; }

// None of what is in a file was written later.
TimePoint last_written(std::chrono::nanoseconds modified) {
  const Duration age = std::chrono::system_clock::now().time_since_epoch() - modified;
  return BootClock::now() - std::max(age, Duration::zero());
}

}  // namespace

// Passes what is typed on to the worker's terminal.
class JobOutput::StdinRelay {
 public:
  StdinRelay(boost::asio::io_context& io, int pty_fd, InterruptKey interrupt)
      : terminal_(STDIN_FILENO, interrupt),
        keyboard_(io, open_keyboard()),
        pty_(::fcntl(pty_fd, F_DUPFD_CLOEXEC, 3)) {
    wait_readable();
  }

  [[nodiscard]] const KeyTerminal& terminal() const { return terminal_; }

 private:
  void wait_readable() {
    keyboard_.async_wait(
        boost::asio::posix::stream_descriptor::wait_read, gate_.pass([this](boost::system::error_code error) {
          if (error) return;
          std::array<char, 1024> typed;
          const ssize_t count = ::read(keyboard_.native_handle(), typed.data(), typed.size());
          if (count <= 0) return;
          // A terminal that does not read what is typed loses it, as a real one does.
          [[maybe_unused]] const ssize_t passed =
              ::write(pty_.get(), typed.data(), static_cast<std::size_t>(count));
          wait_readable();
        }));
  }

  KeyTerminal terminal_;
  boost::asio::posix::stream_descriptor keyboard_;
  UniqueFd pty_;
  Gate gate_;
};

WorkerStreams::~WorkerStreams() {
  for (const auto& pump : pumps_) output_.forget(pump.get());
}

void WorkerStreams::spawned() {
  worker_ends_.clear();
  for (const auto& pump : pumps_) pump->start();
}

void WorkerStreams::drain() {
  for (const auto& pump : pumps_) pump->drain();
}

void WorkerStreams::finish() {
  for (const auto& pump : pumps_) {
    if (pump->is_open()) pump->finish();
  }
}

PrintedTraceback WorkerStreams::last_traceback() const {
  if (!tail_is_in_file_) return scanner_.last();
  struct stat status {};
  if (::stat(stderr_path_.c_str(), &status) != 0) return {};
  const auto modified =
      std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  if (!searched_ || searched_->size != status.st_size || searched_->modified != modified) {
    const auto search = [&](std::size_t bytes) {
      TracebackScanner scanner;
      scanner.feed(read_tail(stderr_path_, bytes), last_written(modified));
      return scanner.last();
    };
    // What is found may have begun before, or be the last of a chain that has.
    const bool is_near = !search(kSearchedFirstBytes).text.empty();
    searched_ = {status.st_size, modified, search(is_near ? 2 * kSearchedFirstBytes : kSearchedFileBytes)};
  }
  return searched_->traceback;
}

std::string WorkerStreams::stderr_tail() const {
  return tail_is_in_file_ ? read_tail(stderr_path_, 8192) : tail_.tail();
}

JobOutput::JobOutput(boost::asio::io_context& io, OutputOptions options)
    : io_(io),
      options_(std::move(options)),
      files_(io),
      beside_(io),
      stdout_(io, files_, STDOUT_FILENO,
              Console::is_same_target(STDOUT_FILENO, STDERR_FILENO) ? "stdout and stderr" : "stdout"),
      stderr_(Console::is_same_target(STDOUT_FILENO, STDERR_FILENO)
                  ? nullptr
                  : std::make_unique<Console>(io, files_, STDERR_FILENO, "stderr")),
      remote_(stdout_, stderr_ ? *stderr_ : stdout_),
      scratch_(kScratchBytes),
      dev_null_(::open("/dev/null", O_RDWR | O_CLOEXEC)),
      flush_timer_(io),
      fold_timer_(io) {
  channels_[0].console = &stdout_;
  channels_[1].console = stderr_ ? stderr_.get() : &stdout_;
  for (Channel& channel : channels_) {
    Outlet& outlet = channel.console->outlet();
    outlet.set_on_trouble([this](const std::string& sentence) { say(sentence); });
    // Not at once: it is a pump that has just written.
    outlet.set_on_gone([this] {
      boost::asio::post(io_, gate_.pass([this] {
        for (const Channel& one : channels_) {
          if (one.console->outlet().has_no_reader()) hang_up(*one.console);
        }
      }));
    });
  }
}

JobOutput::~JobOutput() = default;

void JobOutput::hurry() {
  for (Outlet* outlet : outlets()) outlet->set_waited_for(false);
}

void JobOutput::begin_generation(const std::string& attempt_directory, const std::vector<WorkerSpec>& specs) {
  for (Outlet* outlet : outlets()) outlet->set_waited_for(true);
  shown_workers_ = static_cast<int>(std::count_if(specs.begin(), specs.end(), is_shown));
  terminals_.clear();
  held_.clear();
  if (!attempt_directory.empty()) {
    if (!options_.stdout_filters.empty())
      channels_[0].filtered = open_log(attempt_directory, "filtered_stdout.log");
    if (!options_.stderr_filters.empty())
      channels_[1].filtered = open_log(attempt_directory, "filtered_stderr.log");
  }
  if (!options_.fold_lines) return;
  std::vector<Rank> ranks;
  for (const WorkerSpec& spec : specs) {
    if (is_shown(spec)) ranks.push_back(spec.rank);
  }
  for (Channel& channel : channels_) channel.folder.emplace(ranks, kFoldWindow);
}

std::optional<LogFile> JobOutput::open_log(const std::string& directory, const char* name) {
  Result<LogFile> file = LogFile::open(files_, directory + "/" + name);
  if (!file) {
    say(fmt::format("{}; this output is on the console only", file.error().message()));
    return std::nullopt;
  }
  file->set_on_trouble([this](const std::string& trouble) {
    say(trouble + "; the job goes on, its output is still shown, and the gap will be marked in the file");
  });
  return std::move(*file);
}

Result<std::unique_ptr<WorkerStreams>> JobOutput::open_streams(const WorkerSpec& spec) {
  auto streams = std::make_unique<WorkerStreams>(*this);
  // A worker is in a session of its own, where the kernel does not keep a job in the background from reading.
  const bool has_stdin = spec.inherit_stdin && !is_in_background_of(STDIN_FILENO);
  streams->stdin_fd_ = has_stdin ? STDIN_FILENO : dev_null_.get();
  if (spec.inherit_stdin && !has_stdin && options_.give_stdin_a_terminal) {
    say(fmt::format("rank {} gets no input: ddprun is in the background of its terminal", spec.rank));
  }
  if (has_stdin && options_.give_stdin_a_terminal && ::isatty(STDIN_FILENO) == 1) {
    Result<void> terminal = open_terminal(spec, *streams);
    if (!terminal) return terminal.error();
  }
  for (const bool is_stderr : {false, true}) {
    int& fd = is_stderr ? streams->stderr_fd_ : streams->stdout_fd_;
    if (fd >= 0) continue;  // the terminal has it
    Result<int> opened = open_stream(spec, is_stderr, *streams);
    if (!opened) return opened.error();
    fd = *opened;
  }
  return streams;
}

// A terminal for a debugger: all three streams are one, as at a real one.
Result<void> JobOutput::open_terminal(const WorkerSpec& spec, WorkerStreams& streams) {
  Result<Pty> pty = open_pty(PtyUse::kTerminal, STDIN_FILENO);
  if (!pty) return pty.error();
  const int worker_fd = pty->worker_end.get();
  streams.stdin_fd_ = worker_fd;
  streams.stdin_is_terminal_ = true;
  if (spec.out.to_console && !spec.out.to_file) streams.stdout_fd_ = worker_fd;
  if (spec.err.to_console && !spec.err.to_file) streams.stderr_fd_ = worker_fd;
  stdin_relay_ = std::make_unique<StdinRelay>(io_, pty->our_end.get(), options_.interrupt_key);
  StreamRoutes routes;
  routes.tail = &streams.tail_;
  routes.scanner = &streams.scanner_;
  routes.console = channels_[0].console;
  routes.writer = spec.local_rank.value();
  routes.is_alone = true;
  terminals_.push_back(&add_pump(streams, std::move(pty->our_end), std::move(routes)));
  streams.worker_ends_.push_back(std::move(pty->worker_end));
  return ok();
}

// The worker's end of stdout or stderr: its log file, a pipe, a pseudo-terminal or /dev/null.
Result<int> JobOutput::open_stream(const WorkerSpec& spec, bool is_stderr, WorkerStreams& streams) {
  const StreamSpec& wanted = is_stderr ? spec.err : spec.out;
  Channel& channel = channels_[is_stderr ? 1 : 0];
  StreamRoutes routes;
  routes.writer = spec.local_rank.value();
  routes.prefix = wanted.prefix;
  bool shows = wanted.to_console;
  if (wanted.to_file) {
    routes.file = open_log(spec.log_dir, is_stderr ? "stderr.log" : "stdout.log");
    if (routes.file) {
      (is_stderr ? streams.stderr_path_ : streams.stdout_path_) = routes.file->path();
    } else {
      shows = true;
    }
  }
  if (routes.file && !shows) {  // the worker writes it itself
    streams.tail_is_in_file_ = streams.tail_is_in_file_ || is_stderr;
    UniqueFd file(::fcntl(routes.file->fd(), F_DUPFD_CLOEXEC, 3));
    streams.worker_ends_.push_back(std::move(file));
    return streams.worker_ends_.back().get();
  }
  if (!is_stderr && !routes.file && (!shows || channel.console->is_null())) return dev_null_.get();
  if (is_stderr) {
    routes.tail = &streams.tail_;
    routes.scanner = &streams.scanner_;
  }
  if (shows) routes.console = channel.console;
  routes.is_alone = shown_workers_ <= 1 && routes.prefix.empty() && !options_.fold_lines && !funnel_;
  if (funnel_) {
    routes.funnel = [this, is_stderr](std::string_view block) { return funnel_(is_stderr, block); };
  }
  if (channel.folder) {
    routes.fold = [this, &channel, rank = spec.rank](std::string_view block) { fold(channel, rank, block); };
  }
  if (channel.filtered && wanted.to_file && wanted.to_console) {
    routes.filtered = &*channel.filtered;
    routes.filter_words = is_stderr ? &options_.stderr_filters : &options_.stdout_filters;
  }
  if (shows && channel.console->is_terminal() && routes.prefix.empty() && !options_.fold_lines) {
    if (Result<Pty> pty = open_pty(PtyUse::kOutput, is_stderr ? STDERR_FILENO : STDOUT_FILENO)) {
      streams.worker_ends_.push_back(std::move(pty->worker_end));
      terminals_.push_back(&add_pump(streams, std::move(pty->our_end), std::move(routes)));
      return streams.worker_ends_.back().get();
    }
  }
  std::optional<Pipe> pipe = open_pipe();
  if (!pipe) return os_error("cannot open a pipe for a worker's output", errno);
  streams.worker_ends_.push_back(std::move(pipe->write_end));
  add_pump(streams, std::move(pipe->read_end), std::move(routes));
  return streams.worker_ends_.back().get();
}

StreamPump& JobOutput::add_pump(WorkerStreams& streams, UniqueFd source, StreamRoutes routes) {
  const bool may_prompt =
      routes.console != nullptr && routes.console->is_terminal() && !routes.fold && !routes.funnel;
  streams.pumps_.push_back(std::make_unique<StreamPump>(io_, std::move(source), std::move(routes), scratch_));
  StreamPump* pump = streams.pumps_.back().get();
  pumps_.push_back(pump);
  for (const Channel& channel : channels_) {
    if (channel.console->outlet().has_no_reader() && pump->is_only_for(*channel.console)) pump->hang_up();
  }
  if (may_prompt) pump->set_on_held([this, pump] { note_held(pump); });
  return *pump;
}

void JobOutput::forget(StreamPump* pump) {
  for (std::vector<StreamPump*>* const list : {&pumps_, &terminals_, &held_}) std::erase(*list, pump);
}

// As if the worker had written to the console itself.
void JobOutput::hang_up(const Console& console) {
  for (StreamPump* const pump : pumps_) {
    if (pump->is_only_for(console)) pump->hang_up();
  }
}

void JobOutput::note_held(StreamPump* pump) {
  if (std::find(held_.begin(), held_.end(), pump) == held_.end()) held_.push_back(pump);
  arm_flush_timer();
}

void JobOutput::arm_flush_timer() {
  if (flush_timer_.is_set()) return;
  flush_timer_.set_after(kPromptDelay, [this] {
    for (StreamPump* pump : std::exchange(held_, {})) pump->flush_line();
  });
}

void JobOutput::fold(Channel& channel, Rank rank, std::string_view block) {
  const TimePoint now = BootClock::now();
  while (!block.empty()) {
    const std::size_t newline = std::min(block.find('\n'), block.size());
    channel.folder->add(rank, block.substr(0, newline), now);
    block.remove_prefix(std::min(newline + 1, block.size()));
  }
  show_folded(channel, channel.folder->pop_ready(now));
  arm_fold_timer();
}

void JobOutput::show_folded(Channel& channel, const std::string& lines) {
  const bool is_stderr = &channel == &channels_[1];
  if (lines.empty() || (funnel_ && funnel_(is_stderr, lines))) return;
  channel.console->write(Console::kLauncher, lines);
}

void JobOutput::show_here(bool is_stderr, std::string_view text) {
  channels_[is_stderr ? 1 : 0].console->write(Console::kLauncher, text);
}

void JobOutput::arm_fold_timer() {
  std::optional<TimePoint> next;
  for (const Channel& channel : channels_) {
    const std::optional<TimePoint> at = channel.folder->next_deadline();
    if (at && (!next || *at < *next)) next = at;
  }
  if (!next || (fold_timer_.is_set() && fold_timer_.time() == *next)) return;
  fold_timer_.set_at(*next, [this] {
    const TimePoint now = BootClock::now();
    for (Channel& channel : channels_) show_folded(channel, channel.folder->pop_ready(now));
    arm_fold_timer();
  });
}

void JobOutput::end_generation() {
  flush_timer_.cancel();
  fold_timer_.cancel();
  held_.clear();
  terminals_.clear();
  pumps_.clear();
  stdin_relay_.reset();
  for (Channel& channel : channels_) {
    if (channel.folder) show_folded(channel, channel.folder->pop_all());
    channel.folder.reset();
    channel.filtered.reset();
  }
}

void JobOutput::say(std::string_view line) {
  write_launcher_line(fmt::format("ddprun: {}\n", ddprun::printable(line, std::string::npos)));
}

void JobOutput::write_launcher_line(std::string_view line) {
  channels_[1].console->write(Console::kLauncher, line);
}

void JobOutput::give_terminal_back() {
  if (stdin_relay_) stdin_relay_->terminal().leave();
}

void JobOutput::take_terminal() {
  if (stdin_relay_) stdin_relay_->terminal().enter();
}

void JobOutput::resize() {
  for (StreamPump* pump : terminals_) {
    if (pump->fd() >= 0) copy_window_size(STDERR_FILENO, pump->fd());
  }
}

Outlet& JobOutput::add_outlet(const UniqueFd& fd, const std::string& name) {
  others_.push_back(std::make_unique<Outlet>(io_, files_, fd.get(), name));
  others_.back()->set_on_trouble([this](const std::string& sentence) { say(sentence); });
  return *others_.back();
}

std::vector<Outlet*> JobOutput::outlets() const {
  std::vector<Outlet*> all{&stdout_.outlet()};
  if (stderr_) all.push_back(&stderr_->outlet());
  for (const auto& other : others_) all.push_back(other.get());
  return all;
}

bool JobOutput::has_backlog() const {
  if (files_.waiting_bytes() > abandoned_bytes_ || beside_.is_waiting()) return true;
  const std::vector<Outlet*> all = outlets();
  return std::any_of(all.begin(), all.end(), [](const Outlet* outlet) { return outlet->has_backlog(); });
}

std::uint64_t JobOutput::taken_bytes() const {
  std::uint64_t bytes = files_.written_bytes();
  for (const Outlet* outlet : outlets()) bytes += outlet->taken_bytes();
  return bytes;
}

void JobOutput::set_on_empty(const std::function<void()>& on_empty) {
  files_.set_on_empty(on_empty);
  beside_.set_on_empty(on_empty);
  for (Outlet* outlet : outlets()) outlet->set_on_empty(on_empty);
}

std::vector<LostOutput> JobOutput::settle() {
  files_.abandon();
  files_.hear_news();  // what is said about a loss comes before its sum
  std::vector<LostOutput> all = files_.losses();
  abandoned_bytes_ = files_.waiting_bytes();
  for (Outlet* outlet : outlets()) {
    if (outlet->has_backlog()) outlet->abandon();
    if (std::optional<LostOutput> lost = outlet->loss()) all.push_back(std::move(*lost));
  }
  for (LostOutput& lost : beside_.abandon()) all.push_back(std::move(lost));
  return all;
}

void JobOutput::close() {
  flush_timer_.close();
  fold_timer_.close();
  stdin_relay_.reset();
  for (Outlet* outlet : outlets()) outlet->close();
  files_.close();
  beside_.close();
}

}  // namespace ddprun::launcher
