#include "worker/training/output_folder.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using ddprun::ErrorCode;
using ddprun::Result;
using ddprun::testing::TemporaryFolder;
using ddprun::training::FolderPatience;
using ddprun::training::OutputFolder;

namespace {

Result<OutputFolder> hold(const std::string& folder, const FolderPatience& patience = {.here = 0s}) {
  return OutputFolder::open(folder, /*job_path=*/"", "{}", patience);
}

}  // namespace

TEST_CASE("an output folder that another job holds is refused, and the job is named") {
  const TemporaryFolder temporary;
  const auto first = hold(temporary.path());
  REQUIRE(first.has_value());
  const auto second = hold(temporary.path());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == ErrorCode::kConfig);
  CHECK_THAT(second.error().message(),
             Catch::Matchers::StartsWith(fmt::format("another job writes to output folder {}: process {} on ",
                                                     temporary.path(), ::getpid())));
  CHECK_THAT(second.error().message(),
             Catch::Matchers::EndsWith("; end that one, or set /output_dir to another place"));
}

TEST_CASE("a job waits for the output folder of one that ends, and says once for whom") {
  const TemporaryFolder temporary;
  std::optional<Result<OutputFolder>> first = hold(temporary.path());
  std::vector<std::string> said;
  const auto second = hold(temporary.path(), {.here = 10min, .tell = [&](const std::string& words) {
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
