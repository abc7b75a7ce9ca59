#include "worker/data/token_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::size_t kMostCharacters = 65536;

/// Bytes of the character that begins with `first`; 0: none begins so.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

/// The text cut into characters; nullopt and the place where it is no UTF-8.
std::optional<std::vector<std::string_view>> cut(std::string_view text, std::size_t& place) {
  std::vector<std::string_view> characters;
  for (place = 0; place < text.size();) {
    const std::size_t length = length_of(static_cast<unsigned char>(text[place]));
    if (length == 0 || place + length > text.size()) return std::nullopt;
    const std::string_view character = text.substr(place, length);
    const auto is_inner = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; };
    if (!std::all_of(character.begin() + 1, character.end(), is_inner)) return std::nullopt;
    characters.push_back(character);
    place += length;
  }
  return characters;
}

}  // namespace

Result<Tokens> map_tokens(const std::string& path) {
  const Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  const std::size_t size = file->size;
  if (size % 2 != 0) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is no file of 16-bit tokens: it has {} bytes, an odd number", path, size));
  }
  if (size == 0) return Tokens{{}, nullptr, path};
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path, errno);
  const std::shared_ptr<const void> owner(start, [size](void* mapped) { ::munmap(mapped, size); });
  return Tokens{{static_cast<const std::uint16_t*>(start), size / 2}, owner, path};
}

// UTF-8 sorts as its code points do, so bytes can be compared.
Result<TextTokens> tokenize_characters(const std::string& text, const std::string& name) {
  std::size_t place = 0;
  const auto characters = cut(text, place);
  if (!characters)
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is no UTF-8 text: byte {} begins no character", name, place));
  std::map<std::string_view, std::uint16_t> numbers;
  for (const std::string_view character : *characters) numbers.emplace(character, 0);
  if (numbers.size() > kMostCharacters) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has {} different characters, at most {} fit into a token", name,
                             numbers.size(), kMostCharacters));
  }
  TextTokens result;
  for (auto& [character, number] : numbers) {
    number = static_cast<std::uint16_t>(result.characters.size());
    result.characters.emplace_back(character);
  }
  const auto values = std::make_shared<std::vector<std::uint16_t>>();
  values->reserve(characters->size());
  for (const std::string_view character : *characters) values->push_back(numbers.at(character));
  result.tokens = {*values, values, name};
  return result;
}

}  // namespace ddprun::data
