#include "worker/training/parts/job_downloads.h"

#include "worker/data/text_tokens.h"
#include "worker/data/transfer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::training {
namespace {

/// /data, and the entries of /evaluate.
std::vector<Options> data_of(const Options& job) {
  std::vector<Options> all{job.object("data")};
  const Options named = job.object("evaluate");
  const nlohmann::json names = nlohmann::json::parse(named.to_json());
  for (const auto& [name, ignored] : names.items()) all.push_back(named.object(name));
  return all;
}

std::optional<PendingDownload> pending(const Options& data) {
  if (!data.has("download") || !data.flag("download")) return std::nullopt;
  std::optional<data::RemoteSet> set = data::remote_set(data.text("type"));
  const std::string folder = data.text("path");
  if (!set || data::missing_files(*set, folder).empty()) return std::nullopt;
  return PendingDownload{.pointer = data.pointer(),
                         .folder = folder,
                         .set = std::move(*set),
                         .options = {.from = data.has("download_from") ? data.text("download_from") : "",
                                     .patience = std::chrono::seconds(data.integer("download_timeout_s")),
                                     .stop = {}}};
}

}  // namespace

std::string PendingDownload::in_words() const {
  return fmt::format("{}: {} from {} into {}", set.title,
                     data::files_in_words(data::missing_files(set, folder)),
                     data::shown_url(options.from.empty() ? set.places.front() : options.from), folder);
}

std::vector<PendingDownload> pending_downloads(const Options& job) {
  std::vector<PendingDownload> all;
  for (const Options& data : data_of(job))
    if (auto one = pending(data)) all.push_back(std::move(*one));
  return all;
}

Result<void> download_data(const Options& job, const std::stop_token& stop) {
  const KernelClock clock;
  const auto kind = ::isatty(STDERR_FILENO) == 1 ? data::DownloadProgress::Kind::kTerminal
                                                 : data::DownloadProgress::Kind::kLog;
  data::DownloadProgress progress(kind, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  });
  for (PendingDownload& one : pending_downloads(job)) {
    one.options.stop = stop;
    if (Result<void> done = data::download(one.set, one.folder, one.options, clock, progress); !done)
      return done.error().with(one.pointer);
  }
  return ok();
}

void keep_text_tokens(const Options& job, const std::stop_token& stop) {
  for (const Options& data : data_of(job))
    if (data.has("keep_tokens") && data.flag("keep_tokens")) data::keep_text_tokens(data.text("path"), stop);
}

}  // namespace ddprun::training
