#include "launcher/report/error_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace ddprun::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostErrorFileBytes = 4 * 1024 * 1024;

// nlohmann/json writes and copies what is nested by recursion: what is deeper than any error file is left
// out.
Json parse_foreign(std::string_view text) {
  constexpr int kMostLevels = 32;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth < kMostLevels; };
  return Json::parse(text, keep, false);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_number() ? found->dump() : std::string();
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
  const Json document = parse_foreign(text);
  if (!document.is_object()) return std::nullopt;
  const auto message = document.find("message");
  if (message == document.end()) return std::nullopt;
  if (message->is_string()) {
    return ErrorFile{message->get<std::string>(), {}, text_of(document, "timestamp")};
  }
  if (!message->is_object()) return std::nullopt;
  ErrorFile file{text_of(*message, "message"), {}, {}};
  const auto extra = message->find("extraInfo");
  if (extra != message->end() && extra->is_object()) {
    file.stack = text_of(*extra, "py_callstack");
    file.timestamp = text_of(*extra, "timestamp");
  }
  return file;
}

std::string error_file_text(const std::string& path) {
  if (path.empty()) return {};
  Result<std::string> text = load_foreign_file(path, kMostErrorFileBytes);
  return text ? std::move(*text) : std::string();
}

std::optional<ErrorFile> load_error_file(const std::string& path) {
  return parse_error_file(error_file_text(path));
}

std::optional<ErrorFile> load_error_file(const WorkerOutcome& worker) {
  return worker.error_file_is_old ? std::nullopt : load_error_file(worker.error_file);
}

std::string why_unreadable(const WorkerOutcome& worker) {
  if (worker.error_file.empty() || worker.error_file_is_old) return {};
  const Result<std::string> text = load_foreign_file(worker.error_file, kMostErrorFileBytes);
  if (!text) return text.error().code() == ErrorCode::kNotFound ? std::string() : text.error().message();
  if (parse_error_file(*text)) return {};
  if (text->empty()) return "it is empty";
  if (!Json::accept(*text)) return fmt::format("its {} bytes are no whole JSON text", text->size());
  return "it is JSON, but has no \"message\" as torch writes it";
}

std::string propagated_error(std::string_view worker_file, const std::string& headline, int error_code,
                             long timestamp_seconds) {
  constexpr auto kReplaceBadUtf8 = Json::error_handler_t::replace;
  Json document = parse_foreign(worker_file);
  if (document.is_object() && document.contains("message")) {
    if (document["message"].is_object()) document["message"]["errorCode"] = error_code;
    return document.dump(-1, ' ', false, kReplaceBadUtf8);
  }
  const Json own{{"message",
                  {{"message", headline},
                   {"errorCode", error_code},
                   {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(timestamp_seconds)}}}}}};
  return own.dump(-1, ' ', false, kReplaceBadUtf8);
}

}  // namespace ddprun::launcher
