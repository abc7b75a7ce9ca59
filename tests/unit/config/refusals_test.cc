#include "rendezvous/config/job_config.h"
#include "tests/support/catch.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// refusals.txt tells what is said about jobs that cannot be accepted: a title, flags, the job file, "----",
// and the whole message. DDPRUN_REWRITE=1 writes what is said now into it, to be read as prose before it is
// committed.

using namespace ddprun::config;

namespace {

constexpr const char* kFile = DDPRUN_REFUSALS;

struct Case {
  std::string title;
  std::vector<std::string> overrides;
  std::string job;
  std::string expected;
};

std::vector<Case> read_cases() {
  std::ifstream file(kFile);
  std::vector<Case> cases(1);
  bool in_expected = false;
  for (std::string line; std::getline(file, line);) {
    Case& current = cases.back();
    if (line == "====") {
      cases.emplace_back();
      in_expected = false;
    } else if (line == "----") {
      in_expected = true;
    } else if (in_expected) {
      current.expected += line + "\n";
    } else if (line.starts_with("# ")) {
      current.title = line;
    } else if (line.starts_with("--set ")) {
      current.overrides.push_back(line.substr(6));
    } else {
      current.job += line + "\n";
    }
  }
  return cases;
}

std::string said_about(const Case& input) {
  const auto overrides = parse_overrides(input.overrides);
  if (!overrides) return overrides.error().message() + "\n";
  const auto job = read_job_config(
      {.path = "job.json", .text = input.job, .overrides = *overrides, .working_directory = "/here"});
  return job ? "accepted\n" : job.error().message() + "\n";
}

void rewrite(const std::vector<Case>& cases) {
  std::ostringstream text;
  for (const Case& input : cases) {
    if (&input != &cases.front()) text << "====\n";
    text << input.title << "\n";
    for (const std::string& change : input.overrides) text << "--set " << change << "\n";
    text << input.job << "----\n" << said_about(input);
  }
  std::ofstream(kFile) << text.str();
}

}  // namespace

TEST_CASE("a job that cannot be accepted is refused in these words") {
  std::vector<Case> cases = read_cases();
  if (std::getenv("DDPRUN_REWRITE") != nullptr) {
    rewrite(cases);
    cases = read_cases();
  }
  REQUIRE(cases.size() >= 25);
  for (const Case& input : cases) {
    INFO(input.title);
    CHECK(said_about(input) == input.expected);
  }
}
