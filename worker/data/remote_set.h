#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::data {

/// One file that others offer.
struct RemoteFile {
  std::string name;
  std::int64_t bytes = 0;  ///< 0: not known
  std::string md5;         ///< of all of it, 32 small hexadecimal digits
  /// Of a packed archive (.tar.gz): what is taken out of it, the last one last; empty: the file itself is it.
  std::vector<std::string> members;
  /// Each list: files with which the set is there, in one of its versions.
  std::vector<std::vector<std::string>> enough;
};

/// A data set that can be downloaded.
struct RemoteSet {
  std::string title;                ///< for people: "MNIST"
  std::vector<std::string> places;  ///< URLs that a file's name is appended to, tried in this order
  std::vector<RemoteFile> files;
};

/// Where the data of /data/type `type` can be had, with torchvision's places and checksums (of CIFAR the binary
/// version, from the same page); none: nowhere.
std::optional<RemoteSet> remote_set(const std::string& type);

/// The files of `set` that a reader would look for in `folder` and not find. Of one that ends in .gz the unpacked
/// one counts as well.
std::vector<RemoteFile> missing_files(const RemoteSet& set, const std::string& folder);

/// The same files, with the sums of `text`, which md5sum has written, in place of their own; files that it does
/// not name stay as they are.
std::vector<RemoteFile> with_sums(std::vector<RemoteFile> files, const std::string& text);

/// "4 files (11.6 MB)", "cifar-10-binary.tar.gz (170.1 MB)".
std::string files_in_words(const std::vector<RemoteFile>& files);

/// "11.6 MB", "4.5 KB": what goes over a network is counted in powers of ten.
std::string size_in_words(std::int64_t bytes);

}  // namespace ddprun::data
