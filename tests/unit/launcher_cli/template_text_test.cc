#include "launcher/text/template_text.h"

#include "tests/support/catch.h"

#include <array>

using namespace ddprun::launcher;

namespace {
std::string filled(std::string_view text) {
  const std::array<TemplateValue, 2> values{TemplateValue{"local_rank", "12"}, {"rank", "3"}};
  return substitute(text, values);
}
}  // namespace

// Each line as Python 3.11's string.Template(text).safe_substitute(local_rank=12, rank=3) answers.
TEST_CASE("variables are filled in as Python's string.Template does, and everything else stays") {
  CHECK(filled("${local_rank}") == "12");
  CHECK(filled("$local_rank") == "12");
  CHECK(filled("out_${local_rank}.txt") == "out_12.txt");
  CHECK(filled("$local_ranks") == "$local_ranks");
  CHECK(filled("$$") == "$");
  CHECK(filled("$$local_rank") == "$local_rank");
  CHECK(filled("$$$local_rank") == "$12");
  CHECK(filled("${unknown} $unknown") == "${unknown} $unknown");
  CHECK(filled("${local_rank") == "${local_rank");
  CHECK(filled("$ {local_rank}") == "$ {local_rank}");
  CHECK(filled("${}") == "${}");
  CHECK(filled("cost: 5$") == "cost: 5$");
  CHECK(filled("$1 $rank") == "$1 3");
  CHECK(filled("") == "");
}
