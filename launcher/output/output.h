#pragma once

#include "launcher/output/console.h"
#include "launcher/output/file_writers.h"
#include "launcher/output/files_beside.h"
#include "launcher/output/line_folder.h"
#include "launcher/output/pty.h"
#include "launcher/output/remote_lines.h"
#include "launcher/output/stream_pump.h"
#include "launcher/plan/plan.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// How the job's output is shown, the same in every generation.
struct OutputOptions {
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  bool fold_lines = false;
  /// The worker with stdin gets a pseudo-terminal when ours is a terminal.
  bool give_stdin_a_terminal = false;
  InterruptKey interrupt_key = InterruptKey::kOurs;  ///< on that terminal
};

/// Takes whole lines of our workers for a console elsewhere; false: they are to be shown here.
using Funnel = std::function<bool(bool is_stderr, std::string_view block)>;

class JobOutput;

/// One worker's stdin, stdout and stderr: the ends it is started with, and what becomes of what it writes.
/// The output outlives it.
class WorkerStreams {
 public:
  explicit WorkerStreams(JobOutput& output) : output_(output) {}
  ~WorkerStreams();
  WorkerStreams(const WorkerStreams&) = delete;
  WorkerStreams& operator=(const WorkerStreams&) = delete;

  /// For SpawnRequest; valid until `spawned`.
  [[nodiscard]] int stdin_fd() const { return stdin_fd_; }
  [[nodiscard]] int stdout_fd() const { return stdout_fd_; }
  [[nodiscard]] int stderr_fd() const { return stderr_fd_; }
  [[nodiscard]] bool stdin_is_terminal() const { return stdin_is_terminal_; }

  /// The worker has its ends: closes ours of them and begins to read.
  void spawned();
  /// The worker has ended: takes what it wrote last.
  void drain();
  /// The generation is over: closes everything.
  void finish();

  [[nodiscard]] std::string stderr_tail() const;
  /// On stderr.
  [[nodiscard]] PrintedTraceback last_traceback() const;
  [[nodiscard]] const std::string& stdout_path() const { return stdout_path_; }
  [[nodiscard]] const std::string& stderr_path() const { return stderr_path_; }

 private:
  friend class JobOutput;
  JobOutput& output_;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  bool stdin_is_terminal_ = false;
  std::vector<UniqueFd> worker_ends_;
  std::string stdout_path_;
  std::string stderr_path_;
  TailBuffer tail_{8192};
  TracebackScanner scanner_;
  bool tail_is_in_file_ = false;
  struct Searched {
    std::int64_t size = 0;
    std::chrono::nanoseconds modified{};
    PrintedTraceback traceback;
  };
  mutable std::optional<Searched> searched_;  // the file as it was; it is asked for several times
  std::vector<std::unique_ptr<StreamPump>> pumps_;
};

/// The job's output: both consoles, the log files and the routes between them and the workers. All that this
/// process says passes through it.
///
/// Blocks    never, but to open a file; see Outlet and FileWriter for what happens to what nobody takes.
/// Threads   none: the io_context's one thread.
/// Files     what cannot be opened is said on the console, and the stream goes there instead: no job ends for
///           a log.
class JobOutput {
 public:
  JobOutput(boost::asio::io_context& io, OutputOptions options);
  ~JobOutput();

  /// Opens the filter files of a generation; `specs` are all its workers.
  void begin_generation(const std::string& attempt_directory, const std::vector<WorkerSpec>& specs);
  /// Opens the streams of one worker. Errors kOs when descriptors run out.
  Result<std::unique_ptr<WorkerStreams>> open_streams(const WorkerSpec& spec);
  /// From now on no worker waits for a console, however slow: they are told to end, and have to save.
  void hurry();
  /// Shows what is held back for folding.
  void end_generation();

  /// From the next generation on, workers' console lines are offered to `funnel` first.
  void set_funnel(Funnel funnel) { funnel_ = std::move(funnel); }
  /// Lines of another node's workers; see RemoteLines.
  void show_remote(ConnectionId connection, const std::string& node, bool is_stderr, std::string_view text,
                   std::uint64_t missing_before) {
    remote_.show(connection, node, is_stderr, text, missing_before);
  }
  /// No more of them come.
  void finish_remote() { remote_.finish(); }
  /// Lines of our own workers that no funnel takes any more.
  void show_here(bool is_stderr, std::string_view text);

  /// A line of the launcher's own, on stderr.
  void say(std::string_view line);
  /// The same, with its '\n' and without our name before it.
  void write_launcher_line(std::string_view line);
  /// The size of our terminal has changed.
  void resize();
  /// We are about to be stopped by Ctrl-Z, and go on after it: our shell gets the terminal as it was.
  void give_terminal_back();
  void take_terminal();

  /// One more place for bytes (--events), waited for at the end like the consoles.
  Outlet& add_outlet(const UniqueFd& fd, const std::string& name);

  /// Files of the launcher's own, for the end of the job; waited for and told as lost like output.
  FilesBeside& files_beside() { return beside_; }

  [[nodiscard]] bool has_backlog() const;
  [[nodiscard]] std::uint64_t taken_bytes() const;
  /// Called each time something's backlog has become empty.
  void set_on_empty(const std::function<void()>& on_empty);
  /// Waits no longer: what waits now is lost. Returns everything that did not get where it was to go.
  [[nodiscard]] std::vector<LostOutput> settle();
  void close();

 private:
  friend class WorkerStreams;
  struct Channel {
    Console* console = nullptr;
    std::optional<LogFile> filtered;
    std::optional<LineFolder> folder;
  };
  class StdinRelay;

  Result<int> open_stream(const WorkerSpec& spec, bool is_stderr, WorkerStreams& streams);
  Result<void> open_terminal(const WorkerSpec& spec, WorkerStreams& streams);
  std::optional<LogFile> open_log(const std::string& directory, const char* name);
  StreamPump& add_pump(WorkerStreams& streams, UniqueFd source, StreamRoutes routes);
  void forget(StreamPump* pump);
  void hang_up(const Console& console);
  [[nodiscard]] std::vector<Outlet*> outlets() const;
  void note_held(StreamPump* pump);
  void arm_flush_timer();
  void fold(Channel& channel, Rank rank, std::string_view block);
  void show_folded(Channel& channel, const std::string& lines);
  void arm_fold_timer();

  boost::asio::io_context& io_;
  OutputOptions options_;
  FileWriters files_;
  FilesBeside beside_;
  mutable Console stdout_;
  std::unique_ptr<Console> stderr_;  // none when stderr ends where stdout does
  std::array<Channel, 2> channels_;
  RemoteLines remote_;
  Funnel funnel_;
  std::vector<char> scratch_;
  UniqueFd dev_null_;
  int shown_workers_ = 0;
  std::vector<StreamPump*> held_;
  Alarm flush_timer_;
  Alarm fold_timer_;
  std::vector<StreamPump*> pumps_;      // of the running generation
  std::vector<StreamPump*> terminals_;  // those of them that are terminals
  std::vector<std::unique_ptr<Outlet>> others_;
  std::uint64_t abandoned_bytes_ = 0;  // of what waits for files
  std::unique_ptr<StdinRelay> stdin_relay_;
  Gate gate_;
};

}  // namespace ddprun::launcher
