#include "launcher/output/traceback_scanner.h"

#include "launcher/output/line_kinds.h"
#include "launcher/text/text.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

// How torch.utils.data and torch.nn.parallel quote what was raised in a process or thread of theirs.
constexpr std::string_view kOriginal = "Original Traceback (most recent call last)";
constexpr std::string_view kFatal = "Fatal Python error: ";
constexpr std::string_view kRichNote = "[NOTE] ";
constexpr std::string_view kFrame = "  File \"";
constexpr std::size_t kLongestEnd = 4096;  // of either end of a line
constexpr std::string_view kGap = " … ";
// The text of an exception, as far as it is kept; with the longest line before it, it is in the kept end.
constexpr int kMostMessageLines = 256;
constexpr std::size_t kLongestMessage = 8 * 1024;
// Longer than it takes to write a text: what comes later is another.
constexpr Duration kWriting = std::chrono::seconds(5);
constexpr int kFinalBars = 8;  // states of progress bars that are drawn once more when a program ends

}  // namespace

void TracebackScanner::feed(std::string_view bytes, TimePoint now) {
  now_ = now;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const bool is_whole = newline != std::string_view::npos;
    const std::string_view piece = bytes.substr(0, is_whole ? newline : bytes.size());
    bytes.remove_prefix(piece.size() + (is_whole ? 1 : 0));
    position_ += piece.size() + (is_whole ? 1 : 0);
    if (is_whole && partial_.empty()) {
      if (piece.size() <= 3 * kLongestEnd) {
        read_line(piece);
        continue;
      }
    }
    partial_ += piece;
    copied_ += piece.size();
    // Both ends matter: an exception with a long text, and a progress bar that a traceback follows.
    if (partial_.size() > 3 * kLongestEnd) {
      partial_.replace(kLongestEnd, partial_.size() - 2 * kLongestEnd, kGap);
      copied_ += kLongestEnd;
    }
    if (is_whole) {
      read_line(partial_);
      partial_.clear();
    }
  }
}

void TracebackScanner::read_line(std::string_view raw) {
  const bool is_header_plain = has(raw, kTracebackHeader);
  // Most lines of most streams end here.
  constexpr std::string_view kTelling = "[ EF-\x1B";
  if (state_ == State::kOutside && !is_header_plain &&
      (raw.empty() || kTelling.find(raw[0]) == std::string_view::npos)) {
    next_kind_ = Kind::kMain;
    return count(raw, raw);
  }
  const PlainLine line(raw);
  const std::string_view plain = line.text();
  const std::string_view inner = without_margin(plain);
  const bool is_in_box =
      (state_ == State::kBox || state_ == State::kMember) && is_of_box(plain) && !opens_box(plain);
  const bool has_header = is_header_plain || has(plain, kTracebackHeader);  // Rich's has two colours
  if (has_header && !has(inner, kOriginal) && !is_in_box) return begin(line);
  if (plain.starts_with(kFatal)) return begin(line);

  switch (state_) {
    case State::kOutside:
      // A script that cannot be compiled has no traceback, only the place and the error.
      if (plain.starts_with(kFrame) && (line.prefix().empty() || line.is_hook())) return begin(line);
      break;
    case State::kBox:
      pending_.add_line(plain);
      if (closes_box(plain)) state_ = State::kFrames;
      return;
    case State::kMember:
      if (line.prefix() != prefix_ || !is_of_box(plain) || now_ - found().at > kWriting) break;
      add_to_message(plain);
      if (closes_box(plain)) state_ = State::kMessage;
      return;
    case State::kFrames:
      if (line.prefix() != prefix_) {
        // Only the first line of a text had it: it was not torch that printed that.
        if (!is_header_last_ || !line.prefix().empty() || !plain.starts_with(kFrame))
          return count(raw, plain);  // somebody else's line
        prefix_.clear();
        kind_ = Kind::kMain;
      }
      is_header_last_ = false;
      if (rich_.is_rich()) {
        if (plain.starts_with(' ') || plain.empty() || rich_.joins(plain)) return add_text(pending_, plain);
        if (opens_box(plain)) {
          state_ = State::kBox;
          return pending_.add_line(plain);
        }
        if (!is_exception_line(plain)) return count(raw, plain);
      }
      // loguru marks the frame that caught it with ">".
      if (inner.empty() || inner[0] == ' ' || inner[0] == '>') return pending_.add_line(plain);
      if (is_syntax_ && !is_syntax_error(inner)) {
        state_ = State::kOutside;  // somebody has printed a stack
        break;
      }
      add_text(pending_, plain);
      return commit();
    case State::kMessage:
      if (has_chain_mark_ && inner.empty()) return;
      if (!prefix_.empty() && line.prefix() != prefix_) break;
      if (is_chain_mark(inner)) {
        has_chain_mark_ = true;
        message_lines_ = 0;
        message_bytes_ = 0;
        add_to_message("");
        return add_to_message(plain);
      }
      if (now_ - found().at > kWriting || !(has(inner, kOriginal) || is_message(line))) {
        state_ = State::kOutside;
        break;
      }
      if (has(inner, kOriginal)) {
        pending_.clear();
        continues_ = true;
        state_ = State::kFrames;
        message_lines_ = 0;
        message_bytes_ = 0;
      }
      if (rich_.is_rich() && opens_member(plain)) state_ = State::kMember;
      add_to_message(plain);
      if (is_fatal_ && plain.starts_with(kExtensionModules)) state_ = State::kOutside;
      return;
  }
  count(raw, plain);
  next_kind_ = plain.starts_with("Exception in thread") ? Kind::kThread
               : plain.starts_with("Exception ignored") || plain.starts_with("Error in atexit") ||
                       plain.starts_with("--- Logging error")
                   ? Kind::kNoise
                   : Kind::kMain;
}

bool TracebackScanner::is_message(const PlainLine& line) const {
  const std::string_view plain = line.text();
  if (is_glog(without_margin(plain)) || is_progress_bar(plain)) return false;
  if (!prefix_.empty()) return true;
  if (!line.prefix().empty()) return false;
  // The first lines may tell of Python's state and of an exception.
  if (is_fatal_) return message_lines_ < 3 || is_of_fault(plain);
  if (rich_.is_rich() && (rich_.joins(plain) || opens_member(plain) || plain.starts_with(kRichNote)))
    return true;
  return is_indented_or_blank(plain);
}

void TracebackScanner::begin(const PlainLine& line) {
  continues_ = state_ == State::kMessage && has_chain_mark_ && line.prefix() == prefix_;
  pending_.clear();
  if (continues_) {
    pending_.add_line("");
  } else {
    kind_ = next_kind_ != Kind::kMain ? next_kind_
            : line.is_hook()          ? Kind::kHook
            : is_log_line(before_)    ? Kind::kLogged
                                      : Kind::kMain;
    prefix_ = line.prefix();
  }
  next_kind_ = Kind::kMain;
  has_chain_mark_ = false;
  is_aborting_ = false;
  is_header_last_ = true;
  is_syntax_ = line.text().starts_with(kFrame);
  pending_.add_line(line.text());
  rich_.begin(line.text());
  state_ = rich_.is_rich() ? State::kBox : State::kFrames;
  is_fatal_ = line.text().starts_with(kFatal);
  if (is_fatal_) commit();
}

void TracebackScanner::commit() {
  using By = PrintedTraceback::By;
  state_ = State::kMessage;
  message_lines_ = 0;
  message_bytes_ = 0;
  Found& whole = found();
  if (continues_) {
    whole.text.add(pending_);
  } else {
    std::swap(whole.text, pending_);
  }
  pending_.clear();
  before_.clear();
  whole.by = kind_ == Kind::kThread ? By::kThread : kind_ == Kind::kHook ? By::kInterpreter : By::kAnybody;
  whole.at = now_;
  reach(whole);
}

void TracebackScanner::add_text(KeptText& text, std::string_view line) {
  if (rich_.joins(line)) {
    text.add_to_last_line(rich_.lost_blank(), line);
  } else {
    text.add_line(line);
  }
  rich_.read(line);
}

// The rest of a text that is too long still belongs to it.
void TracebackScanner::add_to_message(std::string_view line) {
  Found& whole = found();
  ++message_lines_;
  message_bytes_ += line.size() + 1;
  const bool is_kept = message_lines_ <= kMostMessageLines && message_bytes_ <= kLongestMessage;
  if (is_kept && state_ == State::kMember) {
    whole.text.add_line(line);
  } else if (is_kept) {
    add_text(whole.text, line);
  }
  reach(whole);
}

void TracebackScanner::reach(Found& whole) const {
  whole.end = position_;
  whole.lines = lines_;
  whole.bars = bars_;
}

TracebackScanner::Found& TracebackScanner::found() { return found_[static_cast<std::size_t>(kind_)]; }

std::uint64_t TracebackScanner::copied_bytes() const {
  std::uint64_t bytes = copied_ + pending_.copied_bytes();
  for (const Found& one : found_) bytes += one.text.copied_bytes();
  return bytes;
}

void TracebackScanner::count(std::string_view raw, std::string_view plain) {
  constexpr std::size_t kEnough = 160;
  before_.assign(plain.substr(0, kEnough));
  copied_ += before_.size();
  if (best().text.is_empty()) return;
  is_aborting_ = is_aborting_ || plain.starts_with("terminate called");
  if (is_progress_bar(plain)) {
    bars_ += 1 + static_cast<int>(std::count(raw.begin(), raw.end(), '\r'));
  } else if (!is_aborting_ && !is_indented_or_blank(plain) && !is_exit_noise(plain)) {
    ++lines_;
  }
}

const TracebackScanner::Found& TracebackScanner::best() const {
  // A program on its way out prints little in little time.
  constexpr int kFewLines = 20;
  constexpr Duration kSoon = std::chrono::seconds(60);
  const auto later = [](const Found& a, const Found& b) -> const Found& { return a.end > b.end ? a : b; };
  const auto is_on_way_out = [&](const Found& leaving, const Found& after) {
    return !leaving.text.is_empty() && after.end > leaving.end && after.lines - leaving.lines <= kFewLines &&
           after.at - leaving.at <= kSoon;
  };
  const Found& hook = of(Kind::kHook);
  const Found& main = is_on_way_out(hook, of(Kind::kMain)) ? hook : later(hook, of(Kind::kMain));
  const Found& logged = of(Kind::kLogged);
  const Found& any = is_on_way_out(main, logged) ? main : later(main, logged);
  const Found& thread = of(Kind::kThread);
  // Of threads that the end of the program ends as well, or that died long after it had caught another.
  // Within that time nobody can tell: what Python prints of an exception that ends the program, and then
  // waits for its threads, is to the byte what traceback.print_exc() prints of one that was caught.
  const bool is_of_thread = any.text.is_empty() || (any.by == PrintedTraceback::By::kAnybody &&
                                                    thread.end > any.end && !is_on_way_out(any, thread));
  return is_of_thread ? thread : any;
}

PrintedTraceback TracebackScanner::last() const {
  if (!partial_.empty()) {
    TracebackScanner whole = *this;
    whole.feed("\n", now_);
    return whole.last();
  }
  const Found& best = this->best();
  PrintedTraceback last{.text = best.text.text(), .by = best.by, .at = best.at};
  last.bytes_after = position_ - best.end;
  last.lines_after = lines_ - best.lines + std::max(0, bars_ - best.bars - kFinalBars);
  return last;
}

}  // namespace ddprun::launcher
