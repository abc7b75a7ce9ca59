#include "rendezvous/membership/log_funnel.h"

#include <algorithm>
#include <utility>

namespace ddprun::membership {
namespace {

std::uint64_t count_lines(std::string_view block) {
  const auto ends = static_cast<std::uint64_t>(std::count(block.begin(), block.end(), '\n'));
  return block.empty() || block.back() == '\n' ? ends : ends + 1;
}

/// The longest beginning of `block` that fits into a message, up to a line's end where there is one.
std::string_view first_piece(std::string_view block) {
  if (block.size() <= kMaxLogBytes) return block;
  const std::size_t newline = block.rfind('\n', kMaxLogBytes - 1);
  return block.substr(0, newline == std::string_view::npos ? kMaxLogBytes : newline + 1);
}

}  // namespace

void LogFunnel::push(bool is_stderr, std::string_view block) {
  is_dropping_ = bytes_ + block.size() > (is_dropping_ ? kCapacityBytes / 2 : kCapacityBytes);
  if (is_dropping_) {
    dropped_ += count_lines(block);
    return;
  }
  bytes_ += block.size();
  while (!block.empty()) {
    const std::string_view piece = first_piece(block);
    append(is_stderr, piece);
    block.remove_prefix(piece.size());
  }
}

void LogFunnel::append(bool is_stderr, std::string_view piece) {
  const bool fits = !waiting_.empty() && waiting_.back().is_stderr == is_stderr && dropped_ == 0 &&
                    waiting_.back().text.size() + piece.size() <= kMaxLogBytes;
  if (fits) {
    waiting_.back().text += piece;
  } else {
    waiting_.push_back({is_stderr, std::string(piece), std::exchange(dropped_, 0)});
  }
}

std::optional<LogLines> LogFunnel::pop() {
  if (waiting_.empty()) {
    if (dropped_ == 0) return std::nullopt;
    return LogLines{.is_stderr = true, .text = {}, .dropped_before = std::exchange(dropped_, 0)};
  }
  LogLines next = std::move(waiting_.front());
  waiting_.pop_front();
  bytes_ -= next.text.size();
  return next;
}

void LogFunnel::sent(const LogLines& lines, std::uint64_t end) {
  under_way_.push_back({end, lines.text.size(), count_lines(lines.text) + lines.dropped_before});
}

void LogFunnel::arrived(std::uint64_t bytes) {
  while (!under_way_.empty() && under_way_.front().end <= bytes) under_way_.pop_front();
}

void LogFunnel::connection_ended() {
  std::uint64_t& missing = waiting_.empty() ? dropped_ : waiting_.front().dropped_before;
  for (const UnderWay& lost : std::exchange(under_way_, {})) {
    missing += lost.lines;
    bytes_lost_ += lost.bytes;
  }
}

std::size_t LogFunnel::bytes_under_way() const {
  std::size_t bytes = 0;
  for (const UnderWay& each : under_way_) bytes += each.bytes;
  return bytes;
}

}  // namespace ddprun::membership
