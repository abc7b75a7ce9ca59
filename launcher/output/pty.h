#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <termios.h>

#include <cstddef>
#include <optional>

namespace ddprun::launcher {

/// Both ends of a new pseudo-terminal. The worker gets `worker_end`, so that isatty() holds and progress bars
/// work; what it writes is read from `our_end`.
struct Pty {
  UniqueFd our_end;
  UniqueFd worker_end;
};

enum class PtyUse {
  kOutput,  ///< bytes pass unchanged: the real terminal does the processing
  /// A terminal as a person has it: echo, line editing, Ctrl-C. Ends of lines are left to the real one.
  kTerminal,
};

/// Opens one, as large as the terminal `like_fd`. Errors kOs.
Result<Pty> open_pty(PtyUse use, int like_fd);

/// Gives `pty_fd` the size of the terminal `like_fd`.
void copy_window_size(int like_fd, int pty_fd);

/// The width of the terminal `fd`; 80 when it is none, or does not know.
std::size_t terminal_columns(int fd);
/// Its height; 0 when it is none, or does not know.
std::size_t terminal_rows(int fd);

/// Whether `fd` is our controlling terminal while another job of the shell has it: reading from it would take
/// what is typed for that one.
bool is_in_background_of(int fd);

/// Who gets Ctrl-C. Ctrl-\ and Ctrl-Z are always ours.
enum class InterruptKey { kOurs, kWorkers };

/// Makes a terminal pass each key on as it is typed, unechoed, but for those that signal; what is written to
/// it is shown as before. Gives it back as it was when destroyed.
class KeyTerminal {
 public:
  KeyTerminal(int fd, InterruptKey interrupt);
  ~KeyTerminal();
  KeyTerminal(const KeyTerminal&) = delete;
  KeyTerminal& operator=(const KeyTerminal&) = delete;

  /// Gives it back for a while, for our shell, and takes it again.
  void leave() const;
  void enter() const;

 private:
  int fd_;
  std::optional<termios> before_;
  termios ours_{};
};

}  // namespace ddprun::launcher
