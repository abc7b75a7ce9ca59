#include "rendezvous/base/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<std::unique_ptr<SignalSource>> SignalSource::open(boost::asio::io_context& io,
                                                         const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  std::vector<int> wanted;
  for (const int signal : signals) {
    if ((signal == SIGHUP || signal == SIGTSTP) && is_ignored(signal)) continue;
    ::sigaddset(&set, signal);
    wanted.push_back(signal);
  }
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return os_error("signalfd", errno);
  std::unique_ptr<SignalSource> source(new SignalSource(io, fd));
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  // An ignored signal never reaches a signalfd, and an ignored SIGCHLD would eat exit statuses.
  for (const int signal : wanted) std::signal(signal, SIG_DFL);
  return source;
}

void SignalSource::start(std::function<void(const ReceivedSignal&)> on_signal) {
  on_signal_ = std::move(on_signal);
  wait_readable();
}

void SignalSource::close() {
  gate_.close();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

void SignalSource::stop_this_process() {
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops, and here it goes on
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

void SignalSource::wait_readable() {
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         gate_.pass([this](boost::system::error_code error) {
                           if (error) return;
                           read_all();
                           if (gate_.is_open()) wait_readable();
                         }));
}

void SignalSource::read_all() {
  signalfd_siginfo info{};
  while (gate_.is_open() && ::read(descriptor_.native_handle(), &info, sizeof info) == sizeof info) {
    const bool from_kernel = info.ssi_code > 0;
    on_signal_({.number = static_cast<int>(info.ssi_signo),
                .sender = from_kernel ? 0 : static_cast<pid_t>(info.ssi_pid),
                .value = info.ssi_code == SI_QUEUE ? info.ssi_int : 0});
  }
}

}  // namespace ddprun
