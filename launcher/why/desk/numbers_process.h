#pragma once

#include "launcher/why/desk/beside.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// In the process beside the launcher: for each request that comes over the socket `line`, a std::uint64_t, it writes a
/// line of at most so many bytes there. Returns when nobody asks any more.
using NumbersWork = void (*)(pid_t launcher, int line);

/// A process beside the launcher that says numbers of its ranks as often as other nodes ask: what it has found of them
/// it keeps from one question to the next.
///
/// Bounded  one process, from the first question until nobody has asked for a while. Up to sixteen that ask while it
///          reads get the same answer, more get none; one that takes ten seconds is killed, and nothing is told until
///          the kernel has ended it: who waits for a dead FUSE mount is not ended by SIGKILL.
class NumbersProcess {
 public:
  /// A part of the answer to question `number`.
  using Tell = std::function<void(std::uint64_t number, std::string_view text, bool is_last)>;

  NumbersProcess(boost::asio::io_context& io, NumbersWork work, Tell tell);
  ~NumbersProcess() { close(); }
  NumbersProcess(const NumbersProcess&) = delete;
  NumbersProcess& operator=(const NumbersProcess&) = delete;

  void wanted(std::uint64_t number, std::size_t most_bytes);
  void close();

 private:
  bool start();
  void read();
  void take(std::size_t count);
  void answer_all(std::string_view text);
  void stop();

  NumbersWork work_;
  Tell tell_;
  std::optional<Beside> process_;
  UniqueFd killed_;  ///< the one before, which may not have ended yet
  boost::asio::posix::stream_descriptor line_;
  std::uint64_t started_ = 0;  ///< how many processes there have been
  std::vector<std::uint64_t> waiting_;
  std::size_t most_bytes_ = 0;  ///< of the answer that is awaited
  std::string text_;            ///< of it, so far
  std::array<char, 16384> buffer_{};
  Alarm deadline_;
  Gate gate_;
};

}  // namespace ddprun::launcher::why
