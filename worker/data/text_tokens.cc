#include "worker/data/text_tokens.h"

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/base/utf8.h"
#include "worker/data/read_file.h"
#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::size_t kMostCharacters = 65536;
constexpr std::size_t kCodes = 0x110000;
constexpr std::size_t kTextLimit = std::size_t{1} << 32;
constexpr std::size_t kHeaderLimit = std::size_t{4} << 20;
constexpr int kVersion = 2;  // 1: with \r as a token of its own; the same where a text has none

/// What a text is known again by.
struct TextStamp {
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;

  friend bool operator==(const TextStamp&, const TextStamp&) = default;
};

std::optional<TextStamp> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return TextStamp{
      .bytes = status.st_size,
      .changed_ns = std::int64_t{1'000'000'000} * status.st_mtim.tv_sec + status.st_mtim.tv_nsec};
}

/// With a line's end, and of an even length: 16-bit tokens follow.
std::string header_of(const TextTokens& text, const TextStamp& stamp) {
  const nlohmann::ordered_json header{{"ddprun_tokens", kVersion},
                                      {"text_bytes", stamp.bytes},
                                      {"text_changed_ns", stamp.changed_ns},
                                      {"tokens", text.tokens.values.size()},
                                      {"characters", text.characters}};
  std::string line = header.dump();
  line += line.size() % 2 == 0 ? " \n" : "\n";
  return line;
}

/// What the file beside `path` holds; none: there is no such file, or it is of another text.
std::optional<TextTokens> kept_tokens(const std::string& path) {
  Result<runtime::MappedFile> opened = runtime::MappedFile::open(kept_tokens_path(path));
  if (!opened) return std::nullopt;
  const auto file = std::make_shared<runtime::MappedFile>(std::move(*opened));
  const auto* const start = reinterpret_cast<const char*>(file->bytes().data());
  const std::string_view beginning(start, std::min(file->bytes().size(), kHeaderLimit));
  const std::size_t header = beginning.find('\n') + 1;
  if (header == 0 || header % 2 != 0) return std::nullopt;
  const auto json = nlohmann::json::parse(beginning.substr(0, header), nullptr, /*allow_exceptions=*/false);
  try {
    const TextStamp stamp{.bytes = json.at("text_bytes").get<std::int64_t>(),
                          .changed_ns = json.at("text_changed_ns").get<std::int64_t>()};
    const std::size_t count = (file->bytes().size() - header) / 2;
    auto characters = json.at("characters").get<std::vector<std::string>>();
    const bool has_returns = std::find(characters.begin(), characters.end(), "\r") != characters.end();
    const int version = json.at("ddprun_tokens").get<int>();
    if ((version != kVersion && (version != 1 || has_returns)) || stamp != stamp_of(path) ||
        json.at("tokens").get<std::size_t>() != count || (count > 0 && characters.empty()))
      return std::nullopt;
    return TextTokens{
        .characters = std::move(characters),
        .tokens = {.values = {reinterpret_cast<const std::uint16_t*>(start + header), count},
                   .owner = file,
                   .name = path,
                   .remedy = fmt::format("remove {}, which is then made anew", kept_tokens_path(path))}};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // another program's file
  }
}

/// So that one process of a host makes the tokens. It is a lock of the text alone: what is downloaded into its folder
/// has another. False: somebody who has it keeps it, and may stand still; the tokens are then made without being
/// kept.
bool may_make_tokens(const UniqueFd& text, const std::stop_token& stop) {
  using namespace std::chrono_literals;
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (::flock(text.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // a file system without locks
    if (stop.stop_requested() || std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

/// Whether nothing is there, or what this wrote of another text.
bool may_be_replaced(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISREG(status.st_mode)) return false;
  constexpr std::string_view kBeginning = R"({"ddprun_tokens":)";
  std::string beginning(kBeginning.size(), '\0');
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file && ::read(file.get(), beginning.data(), beginning.size()) == std::ssize(beginning) &&
         beginning == kBeginning;
}

/// As first_character, but an end of a line is one \n, however the file has it: so Python's open() reads texts.
std::optional<Utf8Character> next_character(std::string_view text) {
  if (text.front() == '\r') return Utf8Character{'\n', text.starts_with("\r\n") ? 2U : 1U};
  return first_character(text);
}

Result<TextTokens> tokenize_file(const std::string& path) {
  const Result<std::vector<std::uint8_t>> bytes = read_file(path, kTextLimit);
  if (!bytes) return bytes.error();
  return tokenize_characters({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path);
}

}  // namespace

// UTF-8 sorts as its code points do.
Result<TextTokens> tokenize_characters(std::string_view text, const std::string& name) {
  std::vector<std::uint16_t> numbers(kCodes);
  std::size_t characters = 0;
  for (std::size_t place = 0; place < text.size();) {
    const std::optional<Utf8Character> character = next_character(text.substr(place));
    if (!character)
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is no UTF-8 text: byte {} begins no character", name, place));
    numbers[character->code] = 1;
    ++characters;
    place += character->bytes;
  }
  const auto different = static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(), 1));
  if (different > kMostCharacters) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has {} different characters, at most {} fit into a token", name, different,
                             kMostCharacters));
  }
  std::uint16_t next = 0;
  for (std::uint16_t& number : numbers)
    if (number == 1) number = next++;
  TextTokens result;
  result.characters.resize(different);
  const auto values = std::make_shared<std::vector<std::uint16_t>>();
  values->reserve(characters);
  for (std::size_t place = 0; place < text.size();) {
    const auto [code, bytes] = *next_character(text.substr(place));
    const std::uint16_t number = numbers[code];
    if (result.characters[number].empty())
      result.characters[number] = code == '\n' ? "\n" : text.substr(place, bytes);
    values->push_back(number);
    place += bytes;
  }
  result.tokens = {.values = *values, .owner = values, .name = name};
  return result;
}

std::string kept_tokens_path(const std::string& path) { return path + ".tokens"; }

void keep_text_tokens(const std::string& path, const std::stop_token& stop) {
  if (kept_tokens(path) || !stamp_of(path) || !may_be_replaced(kept_tokens_path(path))) return;
  const UniqueFd file_of_text(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file_of_text || !may_make_tokens(file_of_text, stop) || kept_tokens(path)) return;
  const std::optional<TextStamp> stamp = stamp_of(path);
  const Result<TextTokens> text = tokenize_file(path);
  if (!text || !stamp) return;
  runtime::remove_leftovers_of(kept_tokens_path(path));
  Result<runtime::AtomicFile> file = runtime::AtomicFile::create(kept_tokens_path(path));
  if (!file) return;
  const std::string header = header_of(*text, *stamp);
  if (file->write(std::as_bytes(std::span(header))) && file->write(std::as_bytes(text->tokens.values)))
    static_cast<void>(file->commit());
}

Result<TextTokens> load_text(const std::string& path) {
  if (auto kept = kept_tokens(path)) return std::move(*kept);
  return tokenize_file(path);
}

}  // namespace ddprun::data
