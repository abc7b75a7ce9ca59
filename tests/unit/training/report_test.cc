#include "worker/training/observers/report.h"

#include "tests/support/catch.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

/// What the page's script parses.
nlohmann::json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace

TEST_CASE("a report holds the records, the settings and what the metrics are") {
  const ReportFacts facts{
      .name = "digits",
      .model = "mlp",
      .steps_per_epoch = 10,
      .metrics = {{.name = "loss"},
                  {.name = "accuracy", .better = Metric::Better::kHigher, .is_share = true}}};
  const auto data =
      data_of(make_report(facts, {R"({"event":"start"})", R"({"event":"step","loss":1})"}, R"({"seed":3})"));
  CHECK(data["records"].size() == 2);
  CHECK(data["records"][1]["loss"] == 1);
  CHECK(data["job"]["seed"] == 3);
  CHECK(data["facts"]["model"] == "mlp");
  CHECK(data["shares"] == nlohmann::json({"accuracy"}));
  CHECK(data["higher_is_better"] == nlohmann::json({"accuracy"}));
}

TEST_CASE("a record that was cut is left out of a report") {
  const auto data = data_of(make_report({}, {R"({"event":"sta)", "", R"({"event":"step"})"}, "{}"));
  CHECK(data["records"].size() == 1);
}

namespace {

/// "event step elapsed" of each record that a report has of `records`.
std::vector<std::string> shown(const std::vector<std::string>& records) {
  std::vector<std::string> all;
  const nlohmann::json data = data_of(make_report({}, records, "{}"));
  for (const nlohmann::json& record : data["records"])
    all.push_back(fmt::format("{} {} {}", record["event"].get<std::string>(), record["step"].get<int>(),
                              record["elapsed"].get<double>()));
  return all;
}

}  // namespace

TEST_CASE("a report shows no step that a later start has undone, and no pause before one") {
  CHECK(shown({R"({"event":"start","time":100,"step":0,"restart_count":0})",
               R"({"event":"step","time":101,"step":5})", R"({"event":"checkpoint","time":102,"step":5})",
               R"({"event":"step","time":103,"step":10})", R"({"event":"epoch","time":104,"step":10})",
               R"({"event":"start","time":500,"step":5,"restart_count":0})",
               R"({"event":"step","time":501.5,"step":10})"}) ==
        std::vector<std::string>{"start 0 0", "step 5 1", "checkpoint 5 2", "start 5 4", "step 10 5.5"});
}

TEST_CASE("a report shows nothing of what was before a start from the beginning") {
  CHECK(shown({R"({"event":"start","time":100,"step":0,"restart_count":0})",
               R"({"event":"step","time":101,"step":5})", R"({"event":"end","time":102,"step":5})",
               R"({"event":"start","time":500,"step":0,"restart_count":0})",
               R"({"event":"step","time":501,"step":5})"}) ==
        std::vector<std::string>{"start 0 0", "step 5 1"});
}

TEST_CASE("a report counts the restarts of a job that had no checkpoint yet, and ends with its last start") {
  CHECK(shown({R"({"event":"start","time":100,"step":0,"restart_count":0})",
               R"({"event":"step","time":101,"step":5})",
               R"({"event":"start","time":200,"step":0,"restart_count":1})",
               R"({"event":"step","time":202,"step":5})", R"({"event":"end","time":203,"step":5})",
               R"({"event":"start","time":300,"step":5,"restart_count":0})"}) ==
        std::vector<std::string>{"start 0 0", "start 0 1", "step 5 3", "start 5 4"});
}

TEST_CASE("a report shows no step that a rollback has undone") {
  CHECK(shown({R"({"event":"start","time":100,"step":0,"restart_count":0})",
               R"({"event":"step","time":101,"step":5})", R"({"event":"step","time":102,"step":10})",
               R"({"event":"rollback","time":103,"step":5,"broken_step":11})",
               R"({"event":"step","time":104,"step":10})"}) ==
        std::vector<std::string>{"start 0 0", "step 5 1", "rollback 5 3", "step 10 4"});
}

TEST_CASE("nothing in a job file ends the script of a report") {
  const std::string evil = R"({"name":"</script><script>alert(1)</script>@@DATA@@"})";
  // After it a browser takes no </script> for the end, and the page stays blank.
  const std::string open = make_report({.name = "<!--<script>"}, {R"({"event":"<!--<script>"})"}, evil);
  CHECK(open.find("<!--") == std::string::npos);
  CHECK(data_of(open)["facts"]["name"] == "<!--<script>");
  CHECK(data_of(open)["records"][0]["event"] == "<!--<script>");
  const auto data = data_of(make_report({.name = "</script>"}, {evil}, evil));
  CHECK(data["job"]["name"] == "</script><script>alert(1)</script>@@DATA@@");
  CHECK(data["records"][0]["name"] == data["job"]["name"]);
  CHECK(data["facts"]["name"] == "</script>");
}
