#include "rendezvous/base/printable.h"

#include "rendezvous/base/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace ddprun {
namespace {

constexpr std::string_view kCut = "…";

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// What terminals act on, what shows the rest of the line in another order, and what is not seen at all:
// Unicode's categories Cc, Cf, Zl and Zp, and the letters that fill a place with nothing.
constexpr Range kActive[] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
                             {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
                             {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
                             {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
                             {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
                             {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                             {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

bool is_active(std::uint32_t code) {
  for (const Range& range : kActive) {
    if (code <= range.last) return code >= range.first;
  }
  return false;
}

std::string written_out(std::uint32_t code) {
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string out;
  std::size_t fits = 0;  // as much of `out` as leaves room for the sign of the cut
  while (!text.empty()) {
    const std::optional<Utf8Character> next = first_character(text);
    if (!next) {
      out += '?';
    } else if (is_active(next->code)) {
      out += written_out(next->code);
    } else {
      out += text.substr(0, next->bytes);
    }
    if (out.size() > longest) return out.substr(0, fits) + std::string(kCut);
    if (out.size() + kCut.size() <= longest) fits = out.size();
    text.remove_prefix(next ? next->bytes : 1);
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += printable(text.substr(0, end), std::string::npos);
    if (end < text.size()) lines += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace ddprun
