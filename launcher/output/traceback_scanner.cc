#include "launcher/output/traceback_scanner.h"

#include "launcher/text/text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kHeader = "Traceback (most recent call last)";
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

/// The length of "[rank12]:" at the start of `line`, or 0.
std::size_t rank_size(std::string_view line) {
  constexpr std::string_view kStart = "[rank";
  if (!line.starts_with(kStart)) return 0;
  std::size_t at = kStart.size();
  while (at < line.size() && is_digit(line[at])) ++at;
  return at > kStart.size() && line.substr(at, 2) == "]:" ? at + 2 : 0;
}

/// The length of "W1122 00:36:44.057000 26532 torch/x.py:7] [0/0] [__name]" at the start of `line`, or 0.
/// Source: torch/_logging/_internal.py, TorchLogsFormatter.
std::size_t log_record_size(std::string_view line) {
  constexpr std::size_t kLongestRecord = 512;
  constexpr std::size_t kDate = 5;  // "W1122"
  if (line.size() <= kDate || std::string_view("VIWEC").find(line[0]) == std::string_view::npos ||
      !std::all_of(line.begin() + 1, line.begin() + kDate, is_digit) || line[kDate] != ' ')
    return 0;
  line = line.substr(0, kLongestRecord);
  const std::size_t close = line.find(']');
  if (close == std::string_view::npos) return 0;
  std::size_t number = close;
  while (is_digit(line[number - 1])) --number;
  if (number == close || line[number - 1] != ':') return 0;
  std::size_t end = close + 1;
  while (line.substr(end, 2) == " [") {
    const std::string_view group = line.substr(end + 2, line.find(']', end) - end - 2);
    const bool is_compile_id = !group.empty() && is_digit(group[0]) && has(group, "/") && !has(group, " ");
    if (end + 2 + group.size() == line.size() || !(is_compile_id || group.starts_with("__"))) break;
    end += 2 + group.size() + 1;
  }
  return end;
}

struct Prefix {
  std::size_t size = 0;  // with the blank after it
  bool is_hook = false;
};

/// What torch puts before each line of one text: its excepthook "[rank12]: ", its log a record's place and,
/// once there is a rank, "[rank12]:" before that; that of its C++ is left standing, for `is_glog`. Source:
/// torch/distributed/distributed_c10d.py, _distributed_excepthook.
Prefix prefix_of(std::string_view line) {
  const std::size_t rank = rank_size(line);
  const std::size_t record = log_record_size(line.substr(rank));
  std::size_t size = rank + record;
  if (size == 0) return {};
  const bool has_blank = line.substr(size, 1) == " ";
  const bool is_hook = record == 0 && (has_blank || size == line.size());
  return {size + (has_blank ? 1 : 0), is_hook};
}

/// CSI sequences only: colours and cursor movements.
std::string_view without_escapes(std::string_view line, std::string& storage) {
  if (line.find('\x1B') == std::string_view::npos) return line;
  storage.clear();
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line.substr(at, 2) != "\x1B[") {
      storage += line[at];
    } else {
      at += 2;
      while (at < line.size() && (line[at] < '@' || line[at] > '~')) ++at;
    }
  }
  return storage;
}

bool is_chain_mark(std::string_view line) {
  return has(line, "The above exception was the direct cause of the following exception") ||
         has(line, "During handling of the above exception, another exception occurred");
}

/// "[W1121 20:00:00.123456789 ProcessGroupNCCL.cpp:1] ".
bool is_glog(std::string_view line) {
  return line.size() > 2 && line[0] == '[' &&
         std::string_view("IWEF").find(line[1]) != std::string_view::npos && line[2] >= '0' && line[2] <= '9';
}

/// Lines that are written after an exception and are none of its text: by Python, C++, PyTorch and wandb on
/// their way out.
bool is_exit_noise(std::string_view line) {
  constexpr std::array<std::string_view, 11> kStarts{"terminate called",
                                                     "Task exception was never retrieved",
                                                     "future: <",
                                                     "Exception ignored in",
                                                     "Error in atexit",
                                                     "Error in sys.excepthook",
                                                     "wandb:",
                                                     "frame #",
                                                     "Exception raised from ",
                                                     "C++ CapturedTraceback:",
                                                     "Exception in thread"};
  const bool is_warning = has(line, ".py:") && has(line, "Warning: ");
  return is_glog(line) || is_warning ||
         std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view s) { return line.starts_with(s); });
}

bool is_indented_or_blank(std::string_view line) {
  return line.empty() || line[0] == ' ' || line[0] == '\t' || line.find_first_not_of(" \t\r") == line.npos;
}

constexpr std::string_view kModules = "Extension modules: ";  // the last line

/// Further lines of a fatal error. Source: Python/traceback.c, Python/pylifecycle.c.
bool is_of_fault(std::string_view line) {
  constexpr std::array<std::string_view, 6> kStarts{"Thread 0x", "Current thread", "Stack (most recent", "<",
                                                    "...",       kModules};
  return is_indented_or_blank(line) ||
         std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view s) { return line.starts_with(s); });
}

/// Those that come without a header.
bool is_syntax_error(std::string_view line) {
  return line.starts_with("SyntaxError") || line.starts_with("IndentationError") ||
         line.starts_with("TabError");
}

/// The line of a log, as logging, loguru and asyncio write it before the traceback of what was caught.
bool is_log_line(std::string_view line) {
  constexpr std::array<std::string_view, 4> kAsyncio{"Task exception was never retrieved", "future: <",
                                                     "task: <", "Unhandled exception in event loop"};
  constexpr std::array<std::string_view, 4> kLevels{"ERROR", "WARNING", "CRITICAL", "INFO"};
  const auto is_level = [&](std::string_view level) {
    const std::size_t at = line.find(level);
    if (at == std::string_view::npos) return false;
    const char before = at == 0 ? ' ' : line[at - 1];
    const char after = at + level.size() < line.size() ? line[at + level.size()] : ' ';
    return has(" [|:", {&before, 1}) && has(" ]|:", {&after, 1});
  };
  return std::any_of(kAsyncio.begin(), kAsyncio.end(),
                     [&](std::string_view s) { return line.starts_with(s); }) ||
         std::any_of(kLevels.begin(), kLevels.end(), is_level);
}

/// tqdm's, Lightning's.
bool is_progress_bar(std::string_view line) {
  return has(line, "%|") || has(line, "it/s") || has(line, "s/it");
}

}  // namespace

PlainLine::PlainLine(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (const std::size_t back = line.rfind('\r'); back != std::string_view::npos) line.remove_prefix(back + 1);
  line = without_escapes(line, storage_);
  // A progress bar may stand before the header on its line.
  if (const std::size_t header = line.find(kHeader); header != std::string_view::npos) {
    const std::size_t prefix = line.rfind("[rank", header);
    if (prefix != std::string_view::npos && prefix + prefix_of(line.substr(prefix)).size == header) {
      line.remove_prefix(prefix);
    } else if (header > 0 && line[header - 1] == ']') {
      line.remove_prefix(header);
    }
  }
  const Prefix prefix = prefix_of(line);
  is_hook_ = prefix.is_hook;
  prefix_ = line.substr(0, prefix.size);
  if (prefix_.ends_with(' ')) prefix_.remove_suffix(1);
  text_ = line.substr(prefix.size);
}

std::string_view without_margin(std::string_view plain) {
  const std::size_t first = plain.find_first_not_of(' ');
  if (first == std::string_view::npos) return plain;
  const std::string_view rest = plain.substr(first);
  for (const std::string_view bar : {std::string_view("| "), std::string_view("+ ")}) {
    if (rest.starts_with(bar)) return rest.substr(bar.size());
  }
  constexpr std::string_view kBar = "│";
  if (!rest.starts_with(kBar)) return plain;
  std::string_view inner = rest.substr(kBar.size());
  if (inner.size() >= kBar.size() && inner.substr(inner.size() - kBar.size()) == kBar) {
    inner.remove_suffix(kBar.size());
  }
  const std::size_t end = inner.find_last_not_of(' ');
  inner = end == std::string_view::npos ? std::string_view() : inner.substr(0, end + 1);
  return inner.starts_with(" ") ? inner.substr(1) : inner;
}

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
  const bool is_header_plain = has(raw, kHeader);
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
  const bool has_header = is_header_plain || has(plain, kHeader);  // Rich's has two colours
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
      if (is_fatal_ && plain.starts_with(kModules)) state_ = State::kOutside;
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

void KeptText::add(std::string_view text) {
  copied_ += text.size();
  text_ += text;
  if (text_.size() <= kLongest) return;
  // The outermost frames and the end: what lies between is a recursion or a very deep library. A quarter is
  // left out at least, so that a byte is moved few times.
  constexpr std::string_view kLinesGap = "\n  ...\n";
  const std::size_t head_end = text_.rfind('\n', kLongest / 4);
  const std::size_t tail_begin = text_.find('\n', text_.size() - kLongest / 2);
  if (head_end == std::string::npos || tail_begin == std::string::npos) {
    text_.erase(0, text_.size() - kLongest / 2);
  } else {
    text_.replace(head_end, tail_begin + 1 - head_end, kLinesGap);
  }
  copied_ += text_.size();
}

void KeptText::add_to_last_line(std::string_view between, std::string_view line) {
  if (text_.ends_with('\n')) text_.pop_back();
  add(between);
  add_line(line);
}

void KeptText::add_line(std::string_view line) {
  add(line);
  add("\n");
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
