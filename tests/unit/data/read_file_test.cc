#include "worker/data/read_file.h"

#include "tests/support/catch.h"
#include "tests/support/file_content.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <zlib.h>

#include <fstream>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

constexpr std::size_t kLimit = 1 << 20;

void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("a plain file and a gzip file are read alike") {
  const TemporaryFolder folder;
  const std::string text(5000, 'a');
  std::ofstream(folder.file("plain")) << text;
  write_gzip(folder.file("packed"), text);
  CHECK(text_of(data::read_file(folder.file("plain"), kLimit).value()) == text);
  CHECK(text_of(data::read_file(folder.file("packed"), kLimit).value()) == text);
}

TEST_CASE("gzip files that were written one after the other are one") {
  const TemporaryFolder folder;
  write_gzip(folder.file("first"), std::string(3000, 'a'));
  write_gzip(folder.file("second"), "b");
  std::ofstream(folder.file("both.gz"), std::ios::binary)
      << file_content(folder.file("first")) << file_content(folder.file("second"));
  CHECK(text_of(data::read_file(folder.file("both.gz"), kLimit).value()) == std::string(3000, 'a') + "b");
}

TEST_CASE("an empty file has no bytes") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("empty"));
  CHECK(data::read_file(folder.file("empty"), kLimit).value().empty());
}

TEST_CASE("a truncated gzip file is refused with its name and size") {
  const TemporaryFolder folder;
  write_gzip(folder.file("x.gz"), "some text that is packed");
  const std::string whole = file_content(folder.file("x.gz"));
  std::ofstream(folder.file("x.gz"), std::ios::binary) << whole.substr(0, 20);
  CHECK(data::read_file(folder.file("x.gz"), kLimit).error().message() ==
        folder.file("x.gz") +
            " is a truncated gzip file: it ends after 20 bytes, in the middle of its data; fetch it again");
}

TEST_CASE("a gzip file with a wrong checksum is refused") {
  const TemporaryFolder folder;
  write_gzip(folder.file("x.gz"), "some text that is packed");
  std::string whole = file_content(folder.file("x.gz"));
  whole[whole.size() - 7] = static_cast<char>(whole[whole.size() - 7] ^ 1);
  std::ofstream(folder.file("x.gz"), std::ios::binary) << whole;
  CHECK_THAT(data::read_file(folder.file("x.gz"), kLimit).error().message(),
             Catch::Matchers::Contains("x.gz is a damaged gzip file: incorrect data check"));
}

TEST_CASE("a file longer than its kind can be is refused before it fills the memory") {
  const TemporaryFolder folder;
  write_gzip(folder.file("bomb.gz"), std::string(4 * kLimit, '\0'));
  CHECK(data::read_file(folder.file("bomb.gz"), kLimit).error().message() ==
        folder.file("bomb.gz") + " is longer than the 1048576 bytes such a file can have");
}

TEST_CASE("of the start of a file no more is inflated than was asked for") {
  const TemporaryFolder folder;
  write_gzip(folder.file("bomb.gz"), std::string(4 * kLimit, 'x'));
  std::ofstream(folder.file("plain")) << std::string(100, 'x');
  for (const char* name : {"bomb.gz", "plain"}) {
    const auto bytes = data::read_start_of_file(folder.file(name), 10);
    REQUIRE(bytes.has_value());
    CHECK(text_of(*bytes) == std::string(10, 'x'));
    CHECK(bytes->capacity() < 1000);
  }
  CHECK(data::read_start_of_file(folder.file("plain"), 1000).value().size() == 100);
}

TEST_CASE("a folder in place of a file is refused") {
  const TemporaryFolder folder;
  CHECK(data::read_file(folder.path(), kLimit).error().message() == folder.path() + " is not a regular file");
}
