#include "tests/support/catch.h"
#include "tests/support/file_content.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/runtime/checkpoint/zip_format.h"
#include "worker/runtime/checkpoint/zip_reader.h"
#include "worker/runtime/checkpoint/zip_writer.h"

#include <zlib.h>

using namespace ddprun;
using namespace ddprun::runtime;
using ddprun::testing::TemporaryFolder;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string make_archive(const TemporaryFolder& folder) {
  const std::string path = folder.file("a.zip");
  auto file = AtomicFile::create(path);
  ZipWriter zip(*file);
  REQUIRE(zip.add("a/one", bytes_of("first")).has_value());
  REQUIRE(zip.add("a/two", bytes_of(std::string(1000, 'x'))).has_value());
  REQUIRE(zip.finish().has_value());
  REQUIRE(file->commit().has_value());
  return file_content(path);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("what a zip writer wrote, a zip reader reads") {
  const TemporaryFolder folder;
  const std::string archive = make_archive(folder);
  const auto zip = ZipReader::open(bytes_of(archive));
  REQUIRE(zip.has_value());
  CHECK(text_of(zip->read("one").value()) == "first");
  CHECK(text_of(zip->read("two").value()) == std::string(1000, 'x'));
  CHECK(zip->read("three").error().message() == "record three is missing");
}

TEST_CASE("the data of every record begins at a multiple of 64") {
  const TemporaryFolder folder;
  const std::string archive = make_archive(folder);
  const auto zip = ZipReader::open(bytes_of(archive));
  const auto* start = reinterpret_cast<const std::byte*>(archive.data());
  CHECK((zip->read("one")->data() - start) % 64 == 0);
  CHECK((zip->read("two")->data() - start) % 64 == 0);
}

TEST_CASE("an archive cut anywhere is refused and never read beyond its end") {
  const TemporaryFolder folder;
  const std::string archive = make_archive(folder);
  for (std::size_t size = 0; size < archive.size(); ++size) {
    const std::string cut = archive.substr(0, size);
    const auto zip = ZipReader::open(bytes_of(cut));
    REQUIRE_FALSE(zip.has_value());
    CHECK(zip.error().code() == ErrorCode::kCorrupt);
  }
}

// Names cost fifty bytes each, and all may mean the same data: a small file would fill the memory.
TEST_CASE("records that together are larger than the file are refused") {
  const TemporaryFolder folder;
  std::string archive = make_archive(folder);
  const std::size_t first = archive.find("PK\x01\x02");
  const std::size_t second = archive.find("PK\x01\x02", first + 1);
  const std::size_t end = archive.find("PK\x05\x06");
  const std::string two = archive.substr(second, end - second);
  std::string more = archive.substr(0, end) + two + two;
  std::string tail = archive.substr(end);
  tail[8] = tail[10] = 4;
  const std::string bomb = more + tail;
  CHECK(ZipReader::open(bytes_of(bomb)).error().message() ==
        "its first 3 records have 2005 bytes together, the file 1354");
}

TEST_CASE("any single damaged byte of the data is noticed") {
  const TemporaryFolder folder;
  std::string archive = make_archive(folder);
  const std::size_t place = archive.find("first");
  archive[place + 2] = '?';
  const auto zip = ZipReader::open(bytes_of(archive));
  CHECK(zip->read("one").error().message() ==
        "record one is damaged: its checksum does not match (nor does any of a file that was written under "
        "torch.serialization.set_crc32_options(False): save it without)");
}

TEST_CASE("an archive with any byte changed is read or refused without a crash") {
  const TemporaryFolder folder;
  const std::string archive = make_archive(folder);
  for (std::size_t place = 0; place < archive.size(); ++place) {
    std::string damaged = archive;
    damaged[place] = static_cast<char>(damaged[place] ^ 0xff);
    const auto zip = ZipReader::open(bytes_of(damaged));
    if (zip) static_cast<void>(zip->read("two"));
  }
  SUCCEED();
}

TEST_CASE("a checksum is zlib's, whatever the length and where the bytes begin") {
  std::vector<std::byte> bytes(1000);
  std::uint32_t state = 1;
  for (std::byte& one : bytes) one = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  const std::span<const std::byte> all(bytes);
  for (std::size_t begin = 0; begin < 17; ++begin) {
    for (std::size_t size = 0; size + begin <= all.size(); ++size) {
      const auto part = all.subspan(begin, size);
      const auto expected = ::crc32_z(0, reinterpret_cast<const Bytef*>(part.data()), part.size());
      if (zip::crc32(part) != expected) FAIL(begin << " " << size);
    }
  }
}
