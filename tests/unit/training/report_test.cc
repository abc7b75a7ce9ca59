#include "worker/training/report.h"

#include "tests/support/catch.h"

#include <nlohmann/json.hpp>

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

TEST_CASE("nothing in a job file ends the script of a report") {
  const std::string evil = R"({"name":"</script><script>alert(1)</script>@@DATA@@"})";
  const auto data = data_of(make_report({.name = "</script>"}, {evil}, evil));
  CHECK(data["job"]["name"] == "</script><script>alert(1)</script>@@DATA@@");
  CHECK(data["records"][0]["name"] == data["job"]["name"]);
  CHECK(data["facts"]["name"] == "</script>");
}
