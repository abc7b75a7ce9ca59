#include "launcher/why/desk/numbers_process.h"

#include <boost/asio/buffer.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher::why {
namespace {

constexpr auto kAnswerTime = std::chrono::seconds(10);
constexpr std::size_t kMostRequests = 16;
constexpr std::size_t kTellBytes = 16 * 1024;
// The last parts may cost the coordinator more than they have (membership::Looks::kLeastCost).
constexpr std::size_t kReserve = 128;

bool has_ended(const UniqueFd& pidfd) {
  pollfd ended{pidfd.get(), POLLIN, 0};
  return !pidfd || ::poll(&ended, 1, 0) > 0;
}

}  // namespace

NumbersProcess::NumbersProcess(boost::asio::io_context& io, NumbersWork work, Tell tell)
    : work_(work), tell_(std::move(tell)), line_(io), deadline_(io) {}

void NumbersProcess::close() {
  gate_.close();
  waiting_.clear();
  stop();
}

void NumbersProcess::wanted(std::uint64_t number, std::size_t most_bytes) {
  if (waiting_.size() >= kMostRequests) return tell_(number, {}, true);
  waiting_.push_back(number);
  if (waiting_.size() > 1) return;
  if (!process_ && !start()) return stop();
  most_bytes_ = most_bytes - std::min(most_bytes, kReserve);
  const std::uint64_t request = most_bytes_;
  if (::send(line_.native_handle(), &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof request)
    return stop();
  deadline_.set_after(kAnswerTime, [this] { stop(); });
}

bool NumbersProcess::start() {
  std::array<int, 2> ends{-1, -1};
  if (work_ == nullptr || !has_ended(killed_) ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return false;
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  Result<Beside> process = start_beside(
      "numbers", theirs.get(), [work = work_, launcher = ::getpid()](int line) { work(launcher, line); });
  if (!process) return false;
  process_.emplace(std::move(*process));
  line_.assign(ours.release());
  ++started_;
  read();
  return true;
}

void NumbersProcess::read() {
  line_.async_read_some(
      boost::asio::buffer(buffer_),
      gate_.pass([this, mine = started_](boost::system::error_code error, std::size_t count) {
        if (mine != started_ || !process_) return;
        if (error) return stop();
        take(count);
        if (process_) read();
      }));
}

void NumbersProcess::take(std::size_t count) {
  text_.append(buffer_.data(), count);
  if (text_.size() > most_bytes_) return stop();
  if (!text_.ends_with('\n')) return;
  deadline_.cancel();
  answer_all(std::exchange(text_, {}));
}

void NumbersProcess::answer_all(std::string_view text) {
  for (const std::uint64_t number : std::exchange(waiting_, {})) {
    for (std::size_t at = 0; at < text.size(); at += kTellBytes)
      tell_(number, text.substr(at, kTellBytes), false);
    tell_(number, {}, true);
  }
}

void NumbersProcess::stop() {
  deadline_.cancel();
  if (process_) killed_ = process_->kill();
  process_.reset();
  boost::system::error_code ignored;
  line_.close(ignored);
  text_.clear();
  answer_all({});
}

}  // namespace ddprun::launcher::why
