#pragma once

#include "rendezvous/base/result.h"
#include "worker/data/download.h"
#include <ddprun/trainer/options.h>

#include <stop_token>
#include <string>
#include <vector>

namespace ddprun::training {

/// Data of a job that is not there, and that its start downloads.
struct PendingDownload {
  std::string pointer;  ///< whose it is: "/data", "/evaluate/NAME"
  std::string folder;
  data::RemoteSet set;
  data::DownloadOptions options;

  /// "MNIST: 4 files (11.6 MB) from https://… into data/mnist".
  [[nodiscard]] std::string in_words() const;
};

/// What /data and the entries of /evaluate whose `download` is true lack. Only looks at folders.
std::vector<PendingDownload> pending_downloads(const Options& job);

/// Downloads all of that, and says on stderr how far it is. Not collective: each process calls it, and one of them
/// does it (data/download.h).
Result<void> download_data(const Options& job, const std::stop_token& stop = {});

/// Leaves the tokens of the texts of /data and /evaluate beside them (data/text_tokens.h), for the ranks of this host
/// to map, as far as `keep_tokens` says so. Not collective: each process calls it, and one of them does it.
void keep_text_tokens(const Options& job, const std::stop_token& stop);

}  // namespace ddprun::training
