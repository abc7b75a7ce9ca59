#include "launcher/why/verdict/page.h"

#include "launcher/why/facts/facts_json.h"
#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/support/file_content.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddprun::launcher::why;

namespace {

namespace fs = std::filesystem;

}  // namespace

// pictures/*.json are facts of real jobs that hung (tests/fault/why); beside each lies the page that is made of it.
// DDPRUN_REWRITE=1 writes what is said now, to be read as prose.
TEST_CASE("of the facts of real hangs the pages are made that lie beside them") {
  const char* const folder = std::getenv("DDPRUN_PICTURES");
  REQUIRE(folder != nullptr);
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().filename().string());
    const std::optional<JobPicture> picture = parse_picture(ddprun::file_content(entry.path()));
    REQUIRE(picture);
    const std::string page = render(*picture, judge(*picture));
    const fs::path expected = fs::path(entry.path()).replace_extension(".txt");
    if (std::getenv("DDPRUN_REWRITE") != nullptr) std::ofstream(expected) << page;
    CHECK(page == ddprun::file_content(expected));
    ++count;
  }
  CHECK(count > 0);
}
