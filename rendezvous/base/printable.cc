#include "rendezvous/base/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace ddprun {
namespace {

constexpr std::string_view kCut = "…";

struct Character {
  std::uint32_t code;
  std::size_t bytes;
};

// None: no UTF-8 begins here.
std::optional<Character> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return Character{lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return std::nullopt;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLowest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return std::nullopt;
  return Character{code, bytes};
}

// Terminals act on them, or show the rest of the line in another order.
bool is_active(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string out;
  std::size_t fits = 0;  // as much of `out` as leaves room for the sign of the cut
  while (!text.empty()) {
    const std::optional<Character> next = first_character(text);
    if (!next) {
      out += '?';
    } else if (is_active(next->code)) {
      out += next->code < 0x100 ? fmt::format("\\x{:02x}", next->code) : fmt::format("\\u{:04x}", next->code);
    } else {
      out += text.substr(0, next->bytes);
    }
    if (out.size() > longest) return out.substr(0, fits) + std::string(kCut);
    if (out.size() + kCut.size() <= longest) fits = out.size();
    text.remove_prefix(next ? next->bytes : 1);
  }
  return out;
}

}  // namespace ddprun
