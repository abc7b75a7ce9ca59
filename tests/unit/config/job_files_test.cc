#include "rendezvous/config/job_config.h"
#include "tests/support/catch.h"

#include <filesystem>
#include <string>

using namespace ddprun::config;

TEST_CASE("every job file that is shipped is accepted as it stands") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_CONFIGS)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".json") || path.ends_with(".schema.json")) continue;
    INFO(path);
    const auto job = load_job_config(path);
    if (!job) FAIL_CHECK(job.error().message());
    ++files;
  }
  CHECK(files >= 2);
}
