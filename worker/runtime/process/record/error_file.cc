#include "worker/runtime/process/record/error_file.h"

#include "rendezvous/base/utf8.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <optional>

namespace ddprun::runtime {

void FixedText::append(std::string_view text) {
  const std::string_view fits = cut_at_character(text, kCapacity - size_);
  std::memcpy(bytes_ + size_, fits.data(), fits.size());
  size_ += fits.size();
}

void FixedText::append_json(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
  // What follows the string must fit as well, or the file is no JSON.
  constexpr std::size_t kReserve = 256;
  while (!text.empty() && size_ + kReserve <= kCapacity) {
    const std::optional<Utf8Character> next = first_character(text);
    const std::string_view character = text.substr(0, next ? next->bytes : 1);
    text.remove_prefix(character.size());
    const char c = character.front();
    const auto byte = static_cast<unsigned char>(c);
    if (!next) {
      append(kReplacement);
    } else if (c == '"' || c == '\\') {
      append("\\");
      append(character);
    } else if (c == '\n') {
      append("\\n");
    } else if (byte < 0x20) {
      const char escape[] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      append({escape, sizeof escape});
    } else {
      append(character);
    }
  }
}

void FixedText::append_number(unsigned long long number) {
  char digits[20];
  std::size_t start = sizeof digits;
  do {
    digits[--start] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  append({digits + start, sizeof digits - start});
}

void format_error_file(std::string_view message, std::string_view stack, unsigned long long unix_seconds,
                       FixedText& out) {
  out.clear();
  out.append("{\"message\": {\"message\": \"");
  out.append_json(message);
  out.append("\", \"extraInfo\": {\"timestamp\": \"");
  out.append_number(unix_seconds);
  out.append("\", \"py_callstack\": \"");
  out.append_json(stack);
  out.append_json(message);
  out.append("\"}}}\n");
}

void write_error_file(const char* path, std::string_view content) {
  if (path == nullptr || *path == '\0') return;
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written <= 0) break;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  close(file);
}

}  // namespace ddprun::runtime
