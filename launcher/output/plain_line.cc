#include "launcher/output/plain_line.h"

#include "launcher/text/text.h"

#include <algorithm>
#include <cstddef>

namespace ddprun::launcher {
namespace {

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

}  // namespace

PlainLine::PlainLine(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (const std::size_t back = line.rfind('\r'); back != std::string_view::npos) line.remove_prefix(back + 1);
  line = without_escapes(line, storage_);
  // A progress bar may stand before the header on its line.
  if (const std::size_t header = line.find(kTracebackHeader); header != std::string_view::npos) {
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

}  // namespace ddprun::launcher
