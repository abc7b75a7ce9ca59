#include "worker/training/resume/output_folder.h"

#include "rendezvous/base/host_name.h"
#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ddprun::ErrorCode;
using ddprun::host_name;
using ddprun::Result;
using ddprun::UniqueFd;
using ddprun::testing::TemporaryFolder;
using ddprun::training::FolderPatience;
using ddprun::training::OutputFolder;

namespace {

Result<OutputFolder> open_in(const std::string& folder, const FolderPatience& patience = {.here = 0s}) {
  return OutputFolder::open(folder, patience);
}

}  // namespace

TEST_CASE("an output folder that another job holds is refused, and the job is named") {
  const TemporaryFolder temporary;
  const auto first = open_in(temporary.path());
  REQUIRE(first.has_value());
  const auto second = open_in(temporary.path());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == ErrorCode::kConfig);
  CHECK_THAT(second.error().message(),
             Catch::Matchers::StartsWith(fmt::format("another job writes to output folder {}: process {} on ",
                                                     temporary.path(), ::getpid())));
  CHECK_THAT(second.error().message(),
             Catch::Matchers::EndsWith("; end that one, or set /output_dir to another place"));
}

TEST_CASE("a job whose folder of checkpoints is a link to that of another job is refused") {
  const TemporaryFolder temporary;
  const auto first = open_in(temporary.file("one"));
  REQUIRE(first.has_value());
  fs::create_directory(temporary.file("other"));
  fs::create_directory_symlink(temporary.file("one/checkpoints"), temporary.file("other/checkpoints"));
  const auto second = open_in(temporary.file("other"));
  REQUIRE_FALSE(second.has_value());
  CHECK_THAT(second.error().message(),
             Catch::Matchers::StartsWith("another job writes to checkpoint folder " +
                                         temporary.file("one/checkpoints")));
}

TEST_CASE(
    "a folder of checkpoints that is the output folder, or a link to nothing, keeps nobody from training") {
  const TemporaryFolder temporary;
  fs::create_directory(temporary.file("same"));
  fs::create_directory_symlink(".", temporary.file("same/checkpoints"));
  CHECK(open_in(temporary.file("same")).has_value());
  fs::create_directory(temporary.file("none"));
  fs::create_directory_symlink("nowhere", temporary.file("none/checkpoints"));
  CHECK(open_in(temporary.file("none")).has_value());
  CHECK_FALSE(fs::exists(temporary.file("none/nowhere")));
}

TEST_CASE("a job waits for the output folder of one that ends, and says once for whom") {
  const TemporaryFolder temporary;
  std::optional<Result<OutputFolder>> first = open_in(temporary.path());
  std::vector<std::string> said;
  const auto second = open_in(temporary.path(), {.here = 10min, .tell = [&](const std::string& words) {
                                                   said.push_back(words);
                                                   first.reset();
                                                 }});
  CHECK(second.has_value());
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(),
             Catch::Matchers::StartsWith(fmt::format("waiting for output folder {}, which process {} on ",
                                                     temporary.path(), ::getpid())));
  CHECK_THAT(said.front(), Catch::Matchers::EndsWith(" holds, for up to 600 s"));
}

TEST_CASE("a folder that is removed and made anew while a job waits for it is waited for again") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("out");
  std::optional<Result<OutputFolder>> first = open_in(folder);
  std::optional<Result<OutputFolder>> other;
  int waits = 0;
  const auto second = open_in(folder, {.here = 10min, .tell = [&](const std::string& /*words*/) {
                                         if (++waits == 1) {
                                           fs::remove_all(folder);
                                           other = open_in(folder);
                                           first.reset();
                                         } else {
                                           other.reset();
                                         }
                                       }});
  CHECK(second.has_value());
  CHECK(waits == 2);
  CHECK_FALSE(open_in(folder).has_value());
}

TEST_CASE("a holder of this host's name, but of another boot, may be gone with its host") {
  const TemporaryFolder temporary;
  const std::string path = temporary.file(".lock");
  std::ofstream(path) << "process 1 on " << host_name() << "\nboot of another pod\n";
  std::optional<UniqueFd> holder(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(holder->get(), LOCK_EX | LOCK_NB) == 0);
  std::vector<std::string> said;
  const auto folder =
      open_in(temporary.path(), {.here = 0s, .elsewhere = 10min, .tell = [&](const std::string& words) {
                                   said.push_back(words);
                                   holder.reset();
                                 }});
  CHECK(folder.has_value());
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Matchers::EndsWith(
                               fmt::format("which process 1 on {} holds, for up to 600 s", host_name())));
}
