#include "worker/data/download.h"

#include "tests/support/catch.h"
#include "tests/support/file_content.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/data/archive.h"
#include "worker/data/download_lock.h"
#include "worker/data/download_plan.h"
#include "worker/data/md5.h"

#include <zlib.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <stop_token>

using namespace ddprun;
using namespace ddprun::data;
using namespace std::chrono_literals;
using ddprun::testing::TemporaryFolder;

namespace {

std::string md5_of_text(std::string_view text) {
  Md5 md5;
  // In two pieces, so that a block is put together.
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  md5.add({bytes, text.size() / 3});
  md5.add({bytes + text.size() / 3, text.size() - text.size() / 3});
  return md5.finish();
}

void touch(const std::string& path) { std::ofstream(path) << "x"; }

std::set<std::string> names_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  return names;
}

/// One member of a tar file, as `tar` writes it.
std::string tar_member(const std::string& name, const std::string& text, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  std::array<char, 13> size{};
  std::snprintf(size.data(), size.size(), "%011lo ", static_cast<unsigned long>(text.size()));
  header.replace(124, 12, size.data(), 12);
  header[156] = type;
  std::string whole = header + text;
  whole.resize((whole.size() + 511) / 512 * 512, '\0');
  return whole;
}

void write_gz(const std::string& path, const std::string& text) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
}

DownloadMove after(TransferEnd end, std::int64_t offset, std::int64_t received, int answers = 1) {
  return after_answer({.end = end, .offset = offset, .received = received, .answers = answers});
}

}  // namespace

TEST_CASE("MD5 gives the sums of RFC 1321") {
  CHECK(md5_of_text("") == "d41d8cd98f00b204e9800998ecf8427e");
  CHECK(md5_of_text("abc") == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(md5_of_text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") ==
        "d174ab98d277d9f5a5611c2c9f419d9f");
  CHECK(md5_of_text("12345678901234567890123456789012345678901234567890123456789012345678901234567890") ==
        "57edf4a22be3c955ac49da2e2107b67a");
}

TEST_CASE("what is missing of a set are the files that its reader would not find") {
  const TemporaryFolder folder;
  const RemoteSet mnist = remote_set("mnist").value();
  CHECK(missing_files(mnist, folder.path()).size() == 4);
  touch(folder.file("train-images-idx3-ubyte"));
  touch(folder.file("t10k-labels-idx1-ubyte.gz"));
  touch(folder.file("t10k-images-idx3-ubyte.gz.part"));
  const auto missing = missing_files(mnist, folder.path());
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].name == "train-labels-idx1-ubyte.gz");
  CHECK(missing[1].name == "t10k-images-idx3-ubyte.gz");
  CHECK_FALSE(remote_set("csv"));
}

TEST_CASE("of an archive the members count, and a set of fewer batches or of another version is a set") {
  const TemporaryFolder folder;
  const RemoteSet cifar = remote_set("cifar10").value();
  touch(folder.file("train"));
  touch(folder.file("test"));
  CHECK(missing_files(remote_set("cifar100").value(), folder.path()).empty());
  touch(folder.file("data_batch_1.bin"));
  CHECK(missing_files(cifar, folder.path()).size() == 1);
  touch(folder.file("test_batch.bin"));
  CHECK(missing_files(cifar, folder.path()).empty());
}

TEST_CASE("a list of sums takes the place of the known ones") {
  const std::string sum(32, 'a');
  const auto files =
      with_sums(remote_set("mnist")->files, "no sum\n" + sum + "  train-images-idx3-ubyte.gz\n" + sum +
                                                " *t10k-labels-idx1-ubyte.gz\n" + sum + "  other.gz\n");
  CHECK(files[0].md5 == sum);
  CHECK(files[0].bytes == 0);
  CHECK(files[1].md5 == "d53e105ee54ea40749a09fcbcd1e9432");
  CHECK(files[3].md5 == sum);
  CHECK(files_in_words(files) == "4 files");
  CHECK(files_in_words(remote_set("mnist")->files) == "4 files (11.6 MB)");
  CHECK(files_in_words(remote_set("cifar10")->files) == "cifar-10-binary.tar.gz (170.1 MB)");
}

TEST_CASE("a server that brings something is asked for the rest, and not for ever") {
  CHECK(after(TransferEnd::kWhole, 0, 10) == DownloadMove::kCheck);
  CHECK(after(TransferEnd::kCut, 0, 10) == DownloadMove::kGoOn);
  CHECK(after(TransferEnd::kCut, 10, 0) == DownloadMove::kNextPlace);
  CHECK(after(TransferEnd::kSilent, 0, 10) == DownloadMove::kGoOn);
  CHECK(after(TransferEnd::kSilent, 0, 0) == DownloadMove::kNextPlace);
  CHECK(after(TransferEnd::kCut, 0, 10, kMostAnswers) == DownloadMove::kNextPlace);
  CHECK(after(TransferEnd::kNoRanges, 10, 0) == DownloadMove::kBeginAnew);
  for (const TransferEnd end : {TransferEnd::kRefused, TransferEnd::kUnreachable, TransferEnd::kRejected})
    CHECK(after(end, 0, 10) == DownloadMove::kNextPlace);
}

TEST_CASE("a wrong sum is blamed on the bytes of an earlier day first") {
  CHECK(after_check(true, 10) == DownloadMove::kDone);
  CHECK(after_check(false, 10) == DownloadMove::kBeginAnew);
  CHECK(after_check(false, 0) == DownloadMove::kNextPlace);
}

TEST_CASE("a log is told every ten seconds how far a file is, and a terminal ten times a second") {
  std::string said;
  const auto write = [&](std::string_view text) { said += text; };
  const TimePoint start{};
  {
    DownloadProgress progress(DownloadProgress::Kind::kLog, write);
    progress.progress("a.gz", 1'000'000, 170'000'000, start);
    progress.progress("a.gz", 2'000'000, 170'000'000, start + 9s);
    CHECK(said.empty());
    progress.progress("a.gz", 34'000'000, 170'000'000, start + 10s);
    CHECK(said == "data: a.gz: 34.0 MB of 170.0 MB (20 %), 3.3 MB/s\n");
  }
  said.clear();
  {
    DownloadProgress progress(DownloadProgress::Kind::kTerminal, write);
    progress.progress("a.gz", 0, 0, start);
    progress.progress("a.gz", 500, 0, start + 100ms);
    CHECK(said == "\r\x1b[Ka.gz: 500 bytes, 5.0 KB/s");
    progress.line("done");
    CHECK(said == "\r\x1b[Ka.gz: 500 bytes, 5.0 KB/s\r\x1b[Kdata: done\n");
  }
}

TEST_CASE("name and password in a URL are not shown") {
  CHECK(shown_url("https://me:secret@host/data/") == "https://host/data/");
  CHECK(shown_url("https://host/a@b") == "https://host/a@b");
  CHECK(shown_url("host") == "host");
}

TEST_CASE("wanted members of an archive are unpacked by the last part of their names") {
  const TemporaryFolder folder;
  const std::string large(100'000, 'l');
  write_gz(folder.file("a.tar.gz"), tar_member("set/", "", '5') + tar_member("set/other.bin", "other") +
                                        tar_member("set/large.bin", large) +
                                        tar_member("../small.bin", "small") +
                                        tar_member("set/large.bin/x", "", '5') + std::string(1024, '\0'));
  REQUIRE(unpack_tar_gz(folder.file("a.tar.gz"), {"small.bin", "large.bin"}, folder.path()).has_value());
  CHECK(names_in(folder) == std::set<std::string>{"a.tar.gz", "large.bin", "small.bin"});
  CHECK(file_content(folder.file("large.bin")) == large);
  CHECK(file_content(folder.file("small.bin")) == "small");
}

TEST_CASE("an archive that is damaged or lacks something leaves nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.tar.gz");
  const auto refusal = [&](const std::string& tar) {
    write_gz(path, tar);
    return unpack_tar_gz(path, {"a.bin", "b.bin"}, folder.path()).error().message();
  };
  const std::string first = tar_member("a.bin", "text");
  CHECK(refusal(first + std::string(1024, '\0')) ==
        "archive " + path + " is damaged: it does not hold b.bin");
  CHECK(refusal(first) == "archive " + path + " is damaged: it ends too early");
  CHECK(refusal(first + std::string(512, 'x')) == "archive " + path + " is damaged: it is no tar file");
  CHECK(names_in(folder) == std::set<std::string>{"a.tar.gz"});
}

TEST_CASE("a download's lock goes with it, and so does a folder that nothing came into") {
  const TemporaryFolder folder;
  const std::string place = folder.file("made/below");
  const auto take = [&](const std::stop_token& stop = {}) {
    return DownloadLock::take(place, stop, [](const std::string&) {});
  };
  {
    auto lock = take();
    REQUIRE(lock.has_value());
    std::stop_source stop;
    stop.request_stop();
    CHECK_FALSE(take(stop.get_token()).has_value());
    CHECK(std::filesystem::exists(place + "/.download.lock"));
    lock->leave_failure({ErrorCode::kOs, "no room"});
    CHECK_THAT(file_content(place + "/.download.lock"), Catch::Matchers::Contains("no room"));
  }
  CHECK_FALSE(std::filesystem::exists(place));
  {
    const auto next = take();
    REQUIRE(next.has_value());
    CHECK_FALSE(next->failure_before());
    touch(place + "/came");
  }
  CHECK(std::filesystem::exists(place + "/came"));
  CHECK_FALSE(std::filesystem::exists(place + "/.download.lock"));
}
