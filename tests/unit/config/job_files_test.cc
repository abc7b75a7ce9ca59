#include "rendezvous/config/job_config.h"
#include "tests/support/catch.h"

#include <sys/stat.h>
#include <unistd.h>

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

TEST_CASE("what a job was completed to is the same job once more") {
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_CONFIGS)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".json") || path.ends_with(".schema.json")) continue;
    INFO(path);
    const auto job = load_job_config(path);
    REQUIRE(job.has_value());
    const auto again = read_job_config(
        {.path = "job.json", .text = job->values.dump(), .overrides = {}, .working_directory = "/"});
    if (!again) FAIL_CHECK(again.error().message());
    if (again) CHECK(again->values == job->values);
  }
}

TEST_CASE("a job file that is no regular file is refused without waiting for a writer") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ddprun-fifo-" + std::to_string(getpid()) + ".json");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const auto job = load_job_config(path);
  std::filesystem::remove(path);
  CHECK(job.error().message() ==
        "the job file " + path + " is no regular file, and every worker reads it anew; write it to a file");
}
