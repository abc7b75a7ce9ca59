#include "rendezvous/base/utf8.h"

namespace ddprun {

std::optional<Utf8Character> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return Utf8Character{lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return std::nullopt;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLowest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return std::nullopt;
  return Utf8Character{code, bytes};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<Utf8Character> next = first_character(text);
    if (!next) return false;
    text.remove_prefix(next->bytes);
  }
  return true;
}

std::string_view cut_at_character(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  // A character has at most four bytes, and all but the first begin with the bits 10.
  std::size_t end = most;
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace ddprun
