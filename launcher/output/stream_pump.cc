#include "launcher/output/stream_pump.h"

#include "launcher/output/line_prefix.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun::launcher {
namespace {

// Bounds what one stream may take before the others are looked at, and a drain of a terminal while somebody writes.
constexpr int kReadsPerTurn = 4;
constexpr int kReadsPerDrain = 64;

bool has_any(std::string_view line, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
}

template <class Use>
void for_each_line(std::string_view block, Use use) {
  while (!block.empty()) {
    const std::size_t newline = block.find('\n');
    const std::size_t size = newline == std::string_view::npos ? block.size() : newline + 1;
    use(block.substr(0, size));
    block.remove_prefix(size);
  }
}

}  // namespace

StreamPump::StreamPump(boost::asio::io_context& io, UniqueFd source, StreamRoutes routes,
                       std::span<char> scratch)
    : source_(io),
      routes_(std::move(routes)),
      scratch_(scratch),
      cutter_(routes_.prefix.empty() || routes_.fold || routes_.funnel ? LineCutter::Ends::kNewline
                                                                       : LineCutter::Ends::kNewlineOrReturn) {
  ::fcntl(source.get(), F_SETFL, ::fcntl(source.get(), F_GETFL) | O_NONBLOCK);
  source_.assign(source.release());
}

void StreamPump::start() { wait_readable(); }

void StreamPump::wait_readable() {
  // What a file has as well is lost to nobody.
  if (routes_.console != nullptr && !routes_.file && routes_.console->outlet().is_behind())
    return routes_.console->outlet().await_room(gate_.pass([this] { wait_readable(); }));
  source_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     gate_.pass([this](boost::system::error_code error) {
                       if (error) return;
                       for (int turn = 0; turn < kReadsPerTurn; ++turn) {
                         const Read result = read_once();
                         if (result == Read::kEnd) return finish();
                         if (result == Read::kNothingNow) break;
                       }
                       wait_readable();
                     }));
}

StreamPump::Read StreamPump::read_once() {
  ssize_t count = 0;
  do {
    count = ::read(source_.native_handle(), scratch_.data(), scratch_.size());
  } while (count < 0 && errno == EINTR);
  if (count > 0) {
    read_bytes_ += static_cast<std::uint64_t>(count);
    pass_on({scratch_.data(), static_cast<std::size_t>(count)});
    return Read::kSome;
  }
  // EIO is how a pseudo-terminal says that nobody holds its other end.
  return count < 0 && errno == EAGAIN ? Read::kNothingNow : Read::kEnd;
}

void StreamPump::pass_on(std::string_view bytes) {
  if (routes_.file) routes_.file->write(bytes);
  if (routes_.tail != nullptr) routes_.tail->append(bytes);
  if (routes_.scanner != nullptr) routes_.scanner->feed(bytes, BootClock::now());
  if (routes_.console == nullptr) return;
  if (routes_.is_alone) {
    routes_.console->write(routes_.writer, bytes);
    return;
  }
  cutter_.feed(bytes, [this](std::string_view block) { pass_block(block); });
  if (cutter_.is_holding() && on_held_) on_held_();
}

void StreamPump::pass_block(std::string_view block) {
  if (routes_.filtered != nullptr) {
    for_each_line(block, [this](std::string_view line) {
      if (has_any(line, *routes_.filter_words)) routes_.filtered->write(routes_.prefix + std::string(line));
    });
  }
  if (routes_.fold) return routes_.fold(block);
  if (routes_.funnel && routes_.funnel(with_prefix(block, routes_.prefix, true))) return;
  if (routes_.prefix.empty()) return routes_.console->write(routes_.writer, block);
  const bool at_line_start = routes_.console->at_line_start(routes_.writer);
  routes_.console->write(routes_.writer, with_prefix(block, routes_.prefix, at_line_start));
}

void StreamPump::flush_line() {
  cutter_.flush([this](std::string_view block) { pass_block(block); });
}

// What lies there now: who goes on writing would keep the loop for as long as it likes.
void StreamPump::drain() {
  int waiting = 0;
  // What a terminal has been given may be on its way through the kernel still.
  const bool is_counted = source_.is_open() && ::isatty(source_.native_handle()) == 0 &&
                          ::ioctl(source_.native_handle(), FIONREAD, &waiting) == 0;
  const std::uint64_t until = read_bytes_ + static_cast<std::uint64_t>(waiting);
  for (int turn = 0; turn < kReadsPerDrain && source_.is_open(); ++turn) {
    if (is_counted && read_bytes_ >= until) return;
    if (read_once() != Read::kSome) return;
  }
}

void StreamPump::finish() {
  drain();
  flush_line();
  close();
}

void StreamPump::close() {
  gate_.close();
  boost::system::error_code ignored;
  source_.close(ignored);
}

}  // namespace ddprun::launcher
