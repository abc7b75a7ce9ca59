#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "worker/data/download_progress.h"
#include "worker/data/remote_set.h"

#include <chrono>
#include <stop_token>
#include <string>

namespace ddprun::data {

struct DownloadOptions {
  /// URL of a folder in place of the set's own; empty: its own. A file MD5SUMS there says the sums of its files.
  std::string from;
  std::chrono::seconds patience{30};  ///< a server from which nothing comes for so long is given up
  std::stop_token stop;               ///< ends it at the next byte, second or look at a lock
};

/// Brings what is missing of `set` into `folder`, which is made where it is not there; does nothing where nothing is
/// missing. A file is name.part until it is whole and its sum is right, and the next download goes on behind what
/// an earlier one has left of it.
///
/// Of all processes that do this for one folder, on hosts whose file system knows locks, one downloads; the
/// others wait for it, and fail with its words where it fails.
///
/// Blocks  until all is there. A signal that ends the process leaves what the next one goes on from.
/// Errors  kNotFound: no place has it, with what each said and which files to put where; kCorrupt: an archive
///         without its files; kOs: the folder or a file cannot be written.
Result<void> download(const RemoteSet& set, const std::string& folder, const DownloadOptions& options,
                      const Clock& clock, DownloadProgress& progress);

}  // namespace ddprun::data
