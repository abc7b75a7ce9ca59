#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

// Where the workers' output goes, byte by byte.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string show(const std::string& pattern) {
  Launched shown({"/bin/sh", "-c", "cat " + pattern});
  REQUIRE(shown.wait() == 0);
  return shown.out();
}

struct Job {
  TempDirectory logs;

  Launched run(int workers, const std::string& script, std::vector<std::string> flags) {
    std::vector<std::string> arguments{
        "--nproc-per-node", std::to_string(workers), "--log-dir", logs.path(), "--rdzv-id", "job"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    for (const char* word : {"--no-python", "/bin/sh", "-c"}) arguments.emplace_back(word);
    arguments.push_back(script);
    return Launched(ddprun_command(arguments));
  }
  [[nodiscard]] std::string log(const std::string& name) const {
    return show(logs.path() + "/job_*/attempt_0/" + name);
  }
  /// Whether the file is there by now and holds just that.
  [[nodiscard]] bool has_logged(const std::string& name, const std::string& text) const {
    return show(logs.path() + "/job_*/attempt_0/" + name + " 2> /dev/null || true") == text;
  }
};

}  // namespace

TEST_CASE("output passes through as it is, stdout to stdout and stderr to stderr") {
  Launched job(ddprun_command(
      {"--no-python", "/bin/sh", "-c", "printf 'a\\377\\000b no newline'; printf 'err\\r\\n' >&2"}));
  CHECK(job.wait() == 0);
  CHECK(job.out() == std::string("a\377\000b no newline", 15));
  CHECK(job.err() == "err\r\n");
}

TEST_CASE_METHOD(Job, "tee writes the bytes to the file and shows them with torchrun's prefix") {
  Launched job = run(2, "printf 'one\\ntwo\\n'; printf 'oops\\n' >&2", {"--tee", "3"});
  CHECK(job.wait() == 0);
  CHECK(sorted_lines(job.out()) ==
        std::vector<std::string>{"[default0]:one", "[default0]:two", "[default1]:one", "[default1]:two"});
  CHECK(sorted_lines(job.err()) == std::vector<std::string>{"[default0]:oops", "[default1]:oops"});
  CHECK(log("0/stdout.log") == "one\ntwo\n");
  CHECK(log("1/stderr.log") == "oops\n");
}

TEST_CASE_METHOD(
    Job, "a line written in two pieces gets one prefix, and a last line without end gets its newline") {
  const Gate gate;
  Launched job = run(2, "printf 'half '; read x < " + gate.path() + "; printf 'line\\nlast'", {"--tee", "1"});
  REQUIRE(eventually(std::chrono::seconds(5), [&] {
    return has_logged("0/stdout.log", "half ") && has_logged("1/stdout.log", "half ");
  }));
  gate.open();
  CHECK(job.wait() == 0);
  CHECK(sorted_lines(job.out()) == std::vector<std::string>{"[default0]:half line", "[default0]:last",
                                                            "[default1]:half line", "[default1]:last"});
  CHECK(log("0/stdout.log") == "half line\nlast");
}

TEST_CASE_METHOD(Job,
                 "redirected streams go to their files only, and the report still has the end of stderr") {
  const Gate gate;
  Launched job = run(2,
                     "echo out; echo trouble $RANK >&2; [ $RANK = 1 ] && read x < " + gate.path() +
                         " && exit 1; echo > " + gate.path() + "; sleep 100",
                     {"--redirects", "3"});
  CHECK(job.wait() == 1);
  CHECK(job.out().empty());
  CHECK(log("0/stdout.log") == "out\n");
  CHECK_THAT(job.err(), Contains("trouble 1"));
}

TEST_CASE("a job of a test that fails leaves nothing behind in the temporary directory") {
  std::string report;
  {
    Launched job(ddprun_command({"--no-python", "/bin/sh", "-c", "exit 3"}));
    CHECK(job.wait() == 3);
    CHECK_THAT(job.err(), Contains("report    " + job.temporary_directory() + "/ddprun_none_"));
    report = job.temporary_directory();
  }
  CHECK_FALSE(std::filesystem::exists(report));
}

TEST_CASE_METHOD(Job, "--prefix names rank and host before each line") {
  Launched job = run(2, "echo hello", {"--prefix"});
  CHECK(job.wait() == 0);
  for (const std::string& line : sorted_lines(job.out()))
    CHECK_THAT(line, Catch::Matchers::Matches("\\[[01]@.*\\] hello"));
}

TEST_CASE_METHOD(Job, "--fold shows once what all ranks print") {
  Launched job = run(4, "echo epoch 1; echo epoch 2; if [ $RANK = 2 ]; then echo warning; fi", {"--fold"});
  CHECK(job.wait() == 0);
  CHECK(job.out() == "[0-3] epoch 1\n[0-3] epoch 2\n[2] warning\n");
}

TEST_CASE_METHOD(Job, "a rank outside --local-ranks-filter is not shown") {
  Launched job = run(3, "echo rank $RANK", {"--local-ranks-filter", "1"});
  CHECK(job.wait() == 0);
  CHECK(job.out() == "rank 1\n");
}

TEST_CASE_METHOD(Job, "lines with a filter's word are copied to the filtered log, with prefix") {
  Launched job = run(2, "echo loss=$RANK; echo noise; echo lr=3",
                     {"--tee", "1", "--duplicate-stdout-filters", "loss,lr"});
  CHECK(job.wait() == 0);
  CHECK(sorted_lines(log("filtered_stdout.log")) ==
        std::vector<std::string>{"[default0]:loss=0", "[default0]:lr=3", "[default1]:loss=1",
                                 "[default1]:lr=3"});
}

TEST_CASE_METHOD(Job, "the last bytes of a killed worker are on disk and in the report") {
  Launched job = run(2, "[ $RANK = 0 ] && sleep 100; echo last words >&2; kill -KILL $$$$", {"--tee", "3"});
  CHECK(job.wait() == 137);
  CHECK(log("1/stderr.log") == "last words\n");
  CHECK_THAT(job.err(), Contains("| last words"));
}
