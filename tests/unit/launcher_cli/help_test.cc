#include "launcher/cli/command_line.h"
#include "launcher/cli/flags.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/golden_page.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun::launcher;

TEST_CASE("--help reads as agreed") { CHECK(help_text() == golden_page("help.txt", help_text())); }

TEST_CASE("no line of --help is wider than the terminal") {
  const std::size_t columns = GENERATE(std::size_t{70}, 80, 132);
  std::istringstream lines(help_text(columns));
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= columns);
    widest = std::max(widest, line.size());
  }
  CHECK(widest > columns - 8);
}

TEST_CASE("--help is the same text at every width") {
  const auto words = [](const std::string& text) {
    std::istringstream stream(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  CHECK(words(help_text(70)) == words(help_text(1000)));
  CHECK(help_text(1) == help_text(70));
}

TEST_CASE("the completions offer every flag") {
  for (const std::string& shell : completion_shells()) {
    const std::string script = completion_script(shell);
    for (const RunFlag& flag : run_flags()) {
      CAPTURE(shell, flag.syntax.name);
      // tcsh's list has the names behind "--", fish's behind -l.
      const std::string before = shell == "tcsh" ? "" : shell == "fish" ? "-l " : "--";
      CHECK(script.find(before + std::string(flag.syntax.name)) != std::string::npos);
    }
  }
}

TEST_CASE("a flag's variable is its name in capitals after PET_") {
  for (const RunFlag& flag : run_flags()) {
    if (flag.syntax.name == "nproc-per-node") CHECK(environment_variable(flag) == "PET_NPROC_PER_NODE");
    if (flag.syntax.name == "prefix") CHECK(environment_variable(flag).empty());
    if (flag.syntax.name == "help") CHECK(environment_variable(flag).empty());
  }
}
