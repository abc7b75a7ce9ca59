#include "worker/data/download.h"

#include "rendezvous/base/unique_fd.h"
#include "worker/data/archive.h"
#include "worker/data/download_lock.h"
#include "worker/data/download_plan.h"
#include "worker/data/md5.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::data {
namespace {

constexpr std::int64_t kMostBytesOfUnknown = std::int64_t{4} << 30;  ///< of a file whose size is not known
constexpr std::size_t kMostSums = std::size_t{1} << 16;
constexpr const char* kSums = "MD5SUMS";

/// Bytes of the file; none: it is not there.
std::optional<std::int64_t> size_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_size;
}

Result<std::string> md5_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return os_error("cannot read " + path, errno);
  Md5 md5;
  std::array<std::uint8_t, 1 << 16> bytes{};
  while (true) {
    const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("cannot read " + path, errno);
    if (got == 0) return md5.finish();
    md5.add(std::span(bytes).first(static_cast<std::size_t>(got)));
  }
}

std::string folder_url(std::string url) {
  if (!url.ends_with('/')) url += '/';
  return url;
}

/// One download of what is missing.
class Download {
 public:
  Download(const RemoteSet& set, const std::string& folder, const DownloadOptions& options,
           const Clock& clock, DownloadProgress& progress)
      : set_(set),
        folder_(folder),
        options_(options),
        clock_(clock),
        progress_(progress),
        places_(options.from.empty() ? set.places : std::vector<std::string>{folder_url(options.from)}) {}

  Result<void> run() {
    std::vector<RemoteFile> files = missing_files(set_, folder_);
    for (const RemoteFile& file : files) wanted_.push_back(file.name);
    Result<HttpClient> client = HttpClient::open();
    if (!client) return cannot_download(client.error().message());
    client_.emplace(std::move(*client));
    if (!options_.from.empty()) {
      if (Result<void> done = read_sums(files); !done) return done;
    }
    for (const RemoteFile& file : files)
      if (Result<void> done = bring(file); !done) return done;
    progress_.line(fmt::format("{} is in {}", set_.title, folder_));
    return ok();
  }

 private:
  [[nodiscard]] Error cannot_download(const std::string& why) const {
    return {
        ErrorCode::kNotFound,
        fmt::format("cannot download {}: {}; put {} into {} yourself, or set download_from to a "
                    "place that has {}",
                    set_.title, why, fmt::join(wanted_, ", "), folder_, wanted_.size() > 1 ? "them" : "it")};
  }

  [[nodiscard]] static Error stopped() { return {ErrorCode::kInternal, "the download was stopped"}; }

  Result<void> read_sums(std::vector<RemoteFile>& files) {
    std::string text;
    const std::string url = places_[0] + kSums;
    const TransferOutcome outcome = client_->get({.url = url,
                                                  .offset = 0,
                                                  .patience = options_.patience,
                                                  .signs_in = !options_.from.empty(),
                                                  .take =
                                                      [&](std::span<const std::uint8_t> bytes) {
                                                        text.append(bytes.begin(), bytes.end());
                                                        return text.size() <= kMostSums;
                                                      },
                                                  .progress = {},
                                                  .stop = options_.stop});
    if (outcome.end == TransferEnd::kStopped) return stopped();
    if (outcome.end == TransferEnd::kWhole) files = with_sums(std::move(files), text);
    // A place without the file has the originals.
    if (outcome.end == TransferEnd::kWhole || (outcome.end == TransferEnd::kRefused && outcome.status >= 400))
      return ok();
    return cannot_download(fmt::format(
        "{}: {}", shown_url(url),
        outcome.end == TransferEnd::kRejected ? "it is too long for a list of sums" : outcome.why));
  }

  Result<void> bring(const RemoteFile& file) {
    if (const std::string given = folder_ + "/" + file.name; !file.members.empty() && size_of(given)) {
      const Result<std::string> sum = md5_of(given);
      if (!sum) return sum.error();
      if (*sum == file.md5) return unpack_tar_gz(given, file.members, folder_);
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} has the MD5 sum {}, and {} has {}; remove it, so that it is downloaded",
                               given, *sum, file.name, file.md5));
    }
    part_ = folder_ + "/" + file.name + ".part";
    std::vector<std::string> reasons;
    for (const std::string& place : places_) {
      Result<std::optional<std::string>> why_not = bring_from(place, file);
      if (!why_not) return why_not.error();
      if (!*why_not) return finish(file);
      reasons.push_back(fmt::format("{}: {}", shown_url(place + file.name), **why_not));
      if (reasons.size() < places_.size()) progress_.line(reasons.back() + "; goes on with the next place");
    }
    if (size_of(part_) == 0) {
      if (Result<void> done = drop_part(); !done) return done;
    }
    return cannot_download(fmt::format("{}", fmt::join(reasons, "; ")));
  }

  /// Nothing: the whole file is in part_, and right. Else why this place has not brought it.
  Result<std::optional<std::string>> bring_from(const std::string& place, const RemoteFile& file) {
    std::string why;
    for (int answers = 1;; ++answers) {
      std::int64_t offset = size_of(part_).value_or(0);
      if (file.bytes > 0 && offset > file.bytes) {
        if (Result<void> done = drop_part(); !done) return done.error();
        offset = 0;
      }
      DownloadMove move = DownloadMove::kCheck;
      if (file.bytes == 0 || offset < file.bytes) {
        Result<TransferOutcome> answer = ask(place, file, offset);
        if (!answer) return answer.error();
        why = answer->why;
        if (answer->end == TransferEnd::kRejected) {
          why = fmt::format("it has more than {}", file.bytes > 0
                                                       ? fmt::format("the {} bytes of that file", file.bytes)
                                                       : size_in_words(kMostBytesOfUnknown));
          if (Result<void> done = drop_part(); !done) return done.error();
        }
        move = after_answer(
            {.end = answer->end, .offset = offset, .received = answer->received, .answers = answers});
      }
      if (move == DownloadMove::kCheck) {
        Result<std::string> sum = md5_of(part_);
        if (!sum) return sum.error();
        move = after_check(*sum == file.md5, offset);
        why = fmt::format("its {} have the MD5 sum {}, expected {}",
                          size_in_words(size_of(part_).value_or(0)), *sum, file.md5);
        if (move == DownloadMove::kNextPlace) {
          if (Result<void> done = drop_part(); !done) return done.error();
        }
      }
      switch (move) {
        case DownloadMove::kDone:
          return std::optional<std::string>();
        case DownloadMove::kNextPlace:
          return std::optional(why);
        case DownloadMove::kBeginAnew:
          progress_.line(fmt::format("{}: {}; begins anew", file.name, why));
          if (Result<void> done = drop_part(); !done) return done.error();
          break;
        case DownloadMove::kGoOn:
        case DownloadMove::kCheck:
          progress_.line(fmt::format("{}: {}; goes on at {}", file.name, why,
                                     size_in_words(size_of(part_).value_or(0))));
          break;
      }
    }
  }

  /// One answer, written behind what part_ has.
  Result<TransferOutcome> ask(const std::string& place, const RemoteFile& file, std::int64_t offset) {
    const UniqueFd out(::open(part_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!out) return os_error("cannot write " + part_, errno);
    const std::string from = shown_url(place);
    progress_.line(offset == 0 ? fmt::format("downloads {} from {}", files_in_words({file}), from)
                               : fmt::format("downloads {} from {}, from {} on", files_in_words({file}), from,
                                             size_in_words(offset)));
    const std::int64_t most = file.bytes > 0 ? file.bytes : kMostBytesOfUnknown;
    std::int64_t have = offset;
    int errno_of_write = 0;
    TransferOutcome outcome = client_->get(
        {.url = place + file.name,
         .offset = offset,
         .patience = options_.patience,
         .signs_in = !options_.from.empty(),
         .take =
             [&](std::span<const std::uint8_t> bytes) {
               have += static_cast<std::int64_t>(bytes.size());
               if (have > most) return false;
               errno_of_write = write_all(out.get(), bytes);
               return errno_of_write == 0;
             },
         .progress =
             [&](std::int64_t received, std::int64_t announced) {
               const std::int64_t all = file.bytes > 0 ? file.bytes : announced > 0 ? offset + announced : 0;
               progress_.progress(file.name, offset + received, all, clock_.now());
             },
         .stop = options_.stop});
    if (outcome.end == TransferEnd::kStopped) return stopped();
    if (errno_of_write != 0) {
      return Error(
          ErrorCode::kOs,
          fmt::format("cannot write {} after {}: {}; make room, and the same command goes on there", part_,
                      size_in_words(size_of(part_).value_or(0)), std::strerror(errno_of_write)));
    }
    if (::fsync(out.get()) != 0) return os_error("cannot write " + part_, errno);
    return outcome;
  }

  /// 0, or why not.
  static int write_all(int out, std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(out, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return errno;
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return 0;
  }

  Result<void> drop_part() {
    if (::unlink(part_.c_str()) != 0 && errno != ENOENT) return os_error("cannot remove " + part_, errno);
    return ok();
  }

  Result<void> finish(const RemoteFile& file) {
    if (!file.members.empty()) {
      if (Result<void> done = unpack_tar_gz(part_, file.members, folder_); !done) return done;
      return drop_part();
    }
    const std::string path = folder_ + "/" + file.name;
    if (::rename(part_.c_str(), path.c_str()) != 0) return os_error("cannot write " + path, errno);
    return ok();
  }

  const RemoteSet& set_;
  const std::string& folder_;
  const DownloadOptions& options_;
  const Clock& clock_;
  DownloadProgress& progress_;
  std::vector<std::string> places_;
  std::vector<std::string> wanted_;
  std::optional<HttpClient> client_;
  std::string part_;
};

}  // namespace

Result<void> download(const RemoteSet& set, const std::string& folder, const DownloadOptions& options,
                      const Clock& clock, DownloadProgress& progress) {
  if (missing_files(set, folder).empty()) return ok();
  Result<DownloadLock> lock = DownloadLock::take(folder, options.stop, [&](const std::string& holder) {
    progress.line(fmt::format("waits for {}, which downloads {} into {}", holder, set.title, folder));
  });
  if (!lock) return lock.error();
  if (missing_files(set, folder).empty()) return ok();
  if (lock->failure_before()) return *lock->failure_before();
  Result<void> done = Download(set, folder, options, clock, progress).run();
  // Who was stopped has not failed: the next one goes on.
  if (!done && !options.stop.stop_requested()) lock->leave_failure(done.error());
  return done;
}

}  // namespace ddprun::data
