#include "launcher/report/traceback.h"

#include "launcher/output/plain_line.h"
#include "launcher/output/rich_text.h"
#include "launcher/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMostShown = 40;
constexpr std::size_t kFirstShown = 4;
constexpr std::size_t kMostMessageShown = 8;

using Lines = std::vector<std::string_view>;

// One exception of a chain, as lines without margins where it matters.
struct Section {
  Lines head;  // the chain's mark and the header
  Lines frames;
  std::string_view exception;
  std::string_view exception_line;  // with its margin
  Lines message;
  bool is_carrier = false;  // what torch made of the next one
  bool is_rich = false;
};

// torch/_utils.py, ExceptionWrapper.
bool is_original(std::string_view line) { return has(line, "Original Traceback (most recent call last)"); }

bool is_header(std::string_view line) {
  return has(line, "Traceback (most recent call last)") && !is_original(line);
}

bool is_chained(std::string_view line) {
  return has(line, "The above exception was the direct cause of") ||
         has(line, "During handling of the above exception");
}

std::vector<Section> split_sections(const Lines& lines) {
  std::vector<Section> sections(1);
  Lines between;  // blank lines and the mark of a chain
  bool in_box = false;
  for (const std::string_view line : lines) {
    const std::string_view inner = without_margin(line);
    Section* section = &sections.back();
    const bool is_whole = !section->exception.empty();
    const bool begins_rich = opens_box(line) && is_header(line);
    if (in_box && is_of_box(line) && !begins_rich) {
      section->frames.push_back(line);
      if (closes_box(line)) in_box = false;
    } else if (section->is_rich && is_whole && is_of_box(line) && !begins_rich) {
      if (!is_chained(inner)) section->message.push_back(line);  // of a member of a group
    } else if (is_chained(inner)) {
      between.push_back(line);
    } else if (is_original(inner) && is_whole) {
      section->is_carrier = true;
      sections.push_back({.head = {line}});
    } else if (is_header(inner) || line.starts_with("Fatal Python error: ")) {
      if (is_whole) {
        sections.emplace_back();
        section = &sections.back();
        section->head = between;
      }
      between.clear();
      section->head.push_back(line);
      in_box = section->is_rich = begins_rich;
      if (line.starts_with("Fatal")) section->exception = line;
    } else if (in_box) {
      section->frames.push_back(line);
    } else if (section->is_rich && !is_whole && opens_box(line)) {
      section->frames.push_back(line);
      in_box = true;
    } else if (!is_whole) {
      if (inner.empty() || inner[0] == ' ' || inner[0] == '>') {
        section->frames.push_back(line);
      } else {
        section->exception = inner;
        section->exception_line = line;
      }
    } else if (between.empty()) {
      section->message.push_back(line);
    }
  }
  return sections;
}

/// "torch" of "/x/site-packages/torch/nn/modules/module.py"; empty where the file is the user's own.
std::string_view library_of(std::string_view frame) {
  const std::size_t open = frame.find("File \"");
  if (open == std::string_view::npos) return {};
  const std::string_view path = frame.substr(open + 6, frame.find('"', open + 6) - open - 6);
  for (const std::string_view folder :
       {std::string_view("/site-packages/"), std::string_view("/dist-packages/")}) {
    const std::size_t at = path.rfind(folder);
    if (at == std::string_view::npos) continue;
    const std::string_view inside = path.substr(at + folder.size());
    return inside.substr(0, inside.find('/'));
  }
  const bool is_standard = has(path, "/lib/python3") || path.starts_with("<frozen");
  return is_standard ? std::string_view("Python") : std::string_view();
}

struct Frame {
  Lines lines;
  std::string_view library;
};

std::vector<Frame> split_frames(const Lines& lines) {
  std::vector<Frame> frames;
  for (const std::string_view line : lines) {
    const std::string_view inner = without_margin(line);
    const bool begins = inner.starts_with("  File \"") || inner.starts_with("> File \"");
    if (begins || frames.empty()) frames.push_back({{}, begins ? library_of(inner) : std::string_view()});
    frames.back().lines.push_back(line);
  }
  return frames;
}

void show(const Lines& lines, std::vector<std::string>& out) {
  out.insert(out.end(), lines.begin(), lines.end());
}

void show_frames(const Lines& lines, std::vector<std::string>& out) {
  std::vector<Frame> frames = split_frames(lines);
  // Where no frame is the user's own, the innermost ones say most.
  if (std::all_of(frames.begin(), frames.end(), [](const Frame& f) { return !f.library.empty(); })) {
    for (std::size_t i = frames.size() > 2 ? frames.size() - 2 : 0; i < frames.size(); ++i)
      frames[i].library = {};
  }
  for (std::size_t i = 0; i < frames.size();) {
    if (frames[i].library.empty()) {
      show(frames[i++].lines, out);
      continue;
    }
    std::size_t end = i;
    std::string names;
    while (end < frames.size() && !frames[end].library.empty()) {
      const std::string name(frames[end].library);
      if (names.empty()) {
        names = name;
      } else if (!has(", " + names + ",", ", " + name + ",")) {
        names += ", " + name;
      }
      ++end;
    }
    out.push_back(fmt::format("  … {} frame{} in {}", end - i, end - i == 1 ? "" : "s", names));
    i = end;
  }
}

/// The stack that c10::Error adds to its text says nothing to the user of a Python program.
bool is_cpp_stack(std::string_view line) {
  return line.starts_with("frame #") || line.starts_with("Exception raised from ") ||
         line.starts_with("C++ CapturedTraceback");
}

/// The lines that belong to the text: up to the first blank one where nothing tells, and none of a C++ stack.
Lines text_of(const Lines& message) {
  Lines text;
  for (const std::string_view line : message) {
    const std::string_view inner = without_margin(line);
    if (is_cpp_stack(inner)) break;
    text.push_back(line);
  }
  while (!text.empty() && trim_blanks(text.back()).empty()) text.pop_back();
  return text;
}

/// "DataLoader worker process 0" of "OSError: Caught OSError in DataLoader worker process 0."
std::string_view carried_from(std::string_view exception) {
  const std::size_t caught = exception.find("Caught ");
  const std::size_t in = caught == std::string_view::npos ? caught : exception.find(" in ", caught);
  if (in == std::string_view::npos) return {};
  const std::string_view place = exception.substr(in + 4);
  return place.substr(0, place.find_last_not_of(".'") + 1);
}

/// "train.py:8, __getitem__" of the user's innermost frame.
std::string own_frame(const Lines& lines) {
  const std::vector<Frame> frames = split_frames(lines);
  const auto own =
      std::find_if(frames.rbegin(), frames.rend(), [](const Frame& frame) { return frame.library.empty(); });
  if (own == frames.rend()) return {};
  const std::string_view frame = without_margin(own->lines.front());
  const std::size_t quote = frame.rfind("\", line ");
  const std::size_t in = frame.find(", in ", quote);
  if (quote == std::string_view::npos || in == std::string_view::npos) return {};
  const std::string_view path = frame.substr(0, quote);
  return fmt::format("{}:{}, {}", path.substr(path.find_last_of("/\"") + 1),
                     frame.substr(quote + 8, in - quote - 8), frame.substr(in + 5));
}

std::string join(const Lines& lines) {
  std::string text;
  for (const std::string_view line : lines) text += (text.empty() ? "" : "\n") + std::string(line);
  return text;
}

std::vector<std::string> without_middle_lines(std::vector<std::string> lines) {
  if (lines.size() <= kMostShown) return lines;
  const std::size_t left_out = lines.size() - kMostShown + 1;
  const auto first = lines.begin() + kFirstShown;
  *first = fmt::format("  … {} lines", left_out);
  lines.erase(first + 1, first + static_cast<std::ptrdiff_t>(left_out));
  return lines;
}

}  // namespace

std::optional<Traceback> read_traceback(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<Section> sections = split_sections(lines);
  while (!sections.empty() && sections.back().exception.empty()) sections.pop_back();
  if (sections.empty()) return std::nullopt;

  Traceback result;
  const Section& last = sections.back();
  result.exception = last.exception;
  result.message = join(text_of(last.message));
  result.is_fatal = last.exception.starts_with("Fatal Python error: ");
  for (std::size_t i = 0; i + 1 < sections.size(); ++i) {
    if (!sections[i].is_carrier) continue;
    const std::string frame = own_frame(sections.back().frames);
    result.place =
        fmt::format("{}{}", carried_from(sections[i].exception), frame.empty() ? "" : " (" + frame + ")");
  }
  const Section& first = *std::find_if(sections.begin(), sections.end(), [&](const Section& section) {
    return !section.is_carrier || &section == &last;
  });
  result.origin = std::string(first.exception) + "\n" + join(first.message);
  for (const Section& section : sections) {
    const bool is_carried = !section.head.empty() && is_original(section.head.front());
    if (&section != &sections.front() && !is_carried) result.shown.emplace_back();
    for (const std::string_view line : section.head) {
      result.shown.emplace_back(line);
      if (is_chained(line)) result.shown.emplace_back();
    }
    show_frames(section.frames, result.shown);
    if (!section.exception.starts_with("Fatal")) result.shown.emplace_back(section.exception_line);
    Lines message = text_of(section.message);
    const std::size_t most = result.is_fatal ? kMostShown : kMostMessageShown;
    if (message.size() > most) message.resize(most);
    if (result.is_fatal) {
      show_frames(message, result.shown);
    } else {
      show(message, result.shown);
    }
  }
  result.shown = without_middle_lines(std::move(result.shown));
  return result;
}

}  // namespace ddprun::launcher
