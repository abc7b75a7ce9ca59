#include "rendezvous/config/job_commands.h"

#include "tests/support/catch.h"

#include <sstream>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::config;

namespace {

Result<JobCommandLine> parse(std::string_view name, const std::vector<std::string>& args) {
  return parse_command_line(*find_job_command(name), args);
}

std::string refusal(std::string_view name, const std::vector<std::string>& args) {
  return parse(name, args).error().message();
}

}  // namespace

TEST_CASE("flags of a command stand before, between and behind its words") {
  const JobCommandLine line =
      parse("eval", {"--json", "--set=/seed=1", "job.json", "--set", "/seed=2", "--checkpoint", "-x"})
          .value();
  CHECK(line.words == std::vector<std::string>{"job.json"});
  CHECK(line.values("set") == std::vector<std::string>{"/seed=1", "/seed=2"});
  CHECK(line.value("checkpoint") == "-x");
  CHECK(line.has("json"));
  CHECK(line.value("none", "else") == "else");
  CHECK(parse("export", {"job.json", "-o", "a.pt"})->value("output") == "a.pt");
}

TEST_CASE("behind two dashes everything is a word") {
  CHECK(parse("eval", {"--", "--json"})->words == std::vector<std::string>{"--json"});
}

TEST_CASE("a command's help needs no words") { CHECK(parse("eval", {"-h"})->wants_help); }

TEST_CASE("what cannot be understood is refused with the command") {
  CHECK(refusal("eval", {}) == "eval: the job file is missing; write ddprun eval JOB.json");
  CHECK(refusal("list", {"a", "b"}) == "list: unexpected \"b\"; write ddprun list [KIND]");
  CHECK(refusal("eval", {"a", "--jsn"}) == "eval: unknown flag --jsn; did you mean \"--json\"?");
  CHECK(refusal("eval", {"a", "-z"}) == "eval: unknown flag -z; ddprun eval --help lists all");
  CHECK(refusal("eval", {"a", "--json=1"}) == "eval: --json takes no value, got \"1\"");
  CHECK(refusal("eval", {"a", "--set"}) == "eval: --set needs a value: --set /KEY=VALUE");
}

TEST_CASE("no line of a command's help is wider than the terminal") {
  const std::size_t columns = GENERATE(std::size_t{60}, 80, 200);
  for (const JobCommand& command : job_commands()) {
    std::istringstream lines(command_help(command, columns));
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= columns);
  }
}
