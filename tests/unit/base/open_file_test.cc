#include "rendezvous/base/open_file.h"

#include "tests/support/catch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddprun;

namespace {

struct Folder {
  std::string path = "/tmp/open_file_test.XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const std::string& text) const {
    std::ofstream(path + "/file") << text;
    return path + "/file";
  }
};

}  // namespace

TEST_CASE("a foreign file is read whole up to the bound, and its end beyond it", "[open_file]") {
  const Folder folder;
  const std::string file = folder.file("0123456789");
  CHECK(*load_foreign_file(file, 10) == "0123456789");
  const Result<std::string> too_long = load_foreign_file(file, 9);
  REQUIRE_FALSE(too_long.has_value());
  CHECK(too_long.error().message() == file + " has 10 bytes; at most 9 are read");
  CHECK(*load_tail_of_foreign_file(file, 3) == "789");
  CHECK(*load_tail_of_foreign_file(file, 30) == "0123456789");
}

TEST_CASE("what is no regular file is refused and never waited for", "[open_file]") {
  const Folder folder;
  const std::string fifo = folder.path + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string link = folder.path + "/link";
  REQUIRE(::symlink(folder.file("text").c_str(), link.c_str()) == 0);
  for (const std::string& path : {fifo, folder.path, std::string("/dev/zero")}) {
    INFO(path);
    CHECK(open_regular_file(path).error().message() == path + " is not a regular file");
    CHECK(load_foreign_file(path, 10).error().message() == path + " is not a regular file");
    CHECK(load_tail_of_foreign_file(path, 10).error().message() == path + " is not a regular file");
  }
  CHECK(open_regular_file(link).has_value());
  CHECK(load_foreign_file(link, 10).error().code() == ErrorCode::kOs);
  CHECK(load_foreign_file(folder.path + "/none", 10).error().code() == ErrorCode::kNotFound);
}
