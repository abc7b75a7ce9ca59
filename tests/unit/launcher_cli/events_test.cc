#include "launcher/report/events.h"

#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/temporary_directory.h"

#include <nlohmann/json.hpp>
#include <unistd.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include <csignal>
#include <fstream>
#include <iterator>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::testing::TemporaryDirectory;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

namespace {

Plan some_plan() {
  Plan plan;
  plan.command = {"/bin/true"};
  plan.title = "true";
  plan.job_tag = "ddprun-x";
  plan.host.hostname = "node-a";
  return plan;
}

WorkerOutcome killed_worker() {
  WorkerOutcome worker;
  worker.pid = 7;
  worker.status = ExitStatus::killed(SIGKILL);
  worker.ended_at = TimePoint(std::chrono::seconds(2));
  return worker;
}

/// One of every event.
std::vector<nlohmann::json> all_events() {
  std::vector<nlohmann::json> events;
  EventLog log(some_plan(), [&](std::string_view line) { events.push_back(nlohmann::json::parse(line)); });
  membership::Round round;
  round.master_addr = "127.0.0.1";
  round.master_port = Port(1234);
  GenerationOutcome generation;
  generation.reason = StopReason::kWorkerFailed;
  generation.why = "rank 0 was killed";
  generation.root_cause = 0;
  generation.workers = {killed_worker()};
  JobOutcome outcome;
  outcome.lost_output = {{"stdout", 7, "its reader is gone"}};
  outcome.exit_code = 137;
  outcome.reason = StopReason::kWorkerFailed;

  log.round_begins(round);
  log.worker_spawned(round, killed_worker());
  log.worker_exited(round, killed_worker());
  log.stopping(round, StopReason::kWorkerFailed, "rank 0 \xff was killed");
  log.generation_ended(generation);
  log.restarting({.restart_count = 1, .delay = std::chrono::milliseconds(5)});
  log.job_ended(outcome, "");
  return events;
}

}  // namespace

TEST_CASE("every event is as configs/events.schema.json publishes it") {
  nlohmann::json schema_text;
  std::ifstream(DDPRUN_EVENTS_SCHEMA) >> schema_text;
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(Adapter(schema_text), schema);
  const std::vector<nlohmann::json> events = all_events();
  REQUIRE(events.size() == 8);
  for (const nlohmann::json& event : events) {
    CAPTURE(event.dump());
    CHECK(valijson::Validator().validate(schema, Adapter(event), nullptr));
  }
  nlohmann::json broken = events.front();
  broken.erase("title");
  CHECK_FALSE(valijson::Validator().validate(schema, Adapter(broken), nullptr));
}

TEST_CASE("events tell what happened, to the nanosecond") {
  const std::vector<nlohmann::json> events = all_events();
  CHECK(events[0]["event"] == "job_started");
  CHECK(events[0]["job"] == "ddprun-x");
  CHECK(events[3]["signal"] == "SIGKILL");
  CHECK(events[3]["exit_code"].is_null());
  CHECK(events[3]["duration_ns"] == 2'000'000'000);
  CHECK(events[6]["delay_ns"] == 5'000'000);
  CHECK(events[7]["exit_code"] == 137);
  CHECK(events[7]["lost_output"][0]["bytes"] == 7);
}

TEST_CASE("two jobs may append to one file") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/events";
  for (const std::string_view line : {"one\n", "two\n"}) {
    const UniqueFd file = std::move(open_events_file(path).value());
    REQUIRE(::write(file.get(), line.data(), line.size()) == 4);
  }
  std::ifstream lines(path);
  CHECK(std::string(std::istreambuf_iterator<char>(lines), {}) == "one\ntwo\n");
}

TEST_CASE("a file that cannot be opened is named") {
  CHECK(open_events_file("/nowhere/e").error().message() ==
        "--events \"/nowhere/e\": cannot be opened: No such file or directory");
}
