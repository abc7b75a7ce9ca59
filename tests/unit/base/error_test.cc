#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"

#include "tests/support/catch.h"

#include <cerrno>

using namespace ddprun;

TEST_CASE("context is put in front, outermost first") {
  const Error error(ErrorCode::kTimeout, "no answer after 30.0 s");
  CHECK(error.with("round 3").with("rendezvous").message() == "rendezvous: round 3: no answer after 30.0 s");
  CHECK(error.with("x").code() == ErrorCode::kTimeout);
}

TEST_CASE("a system error says which call and why") {
  CHECK(os_error("cannot open /nope", ENOENT).message() == "cannot open /nope: No such file or directory");
}

TEST_CASE("the exit code follows from the kind of error") {
  CHECK(to_exit_code(ErrorCode::kUsage) == 64);
  CHECK(to_exit_code(ErrorCode::kUnavailable) == 69);
  CHECK(to_exit_code(ErrorCode::kInternal) == 70);
  CHECK(to_exit_code(ErrorCode::kTimeout) == 75);
  CHECK(to_exit_code(ErrorCode::kPeerLost) == 75);
  CHECK(to_exit_code(ErrorCode::kConfig) == 78);
  CHECK(to_exit_code(ErrorCode::kNotFound) == 127);
}

TEST_CASE("asking an error for its value throws its message") {
  const Result<int> result = Error(ErrorCode::kConfig, "three problems");
  CHECK_THROWS_WITH(result.value(), "three problems");
}

TEST_CASE("log levels are read as Python writes them, too") {
  CHECK(parse_log_level("WARNING").value() == spdlog::level::warn);
  CHECK(parse_log_level("loud").error().message() ==
        "log level \"loud\" is not one of trace, debug, info, warn, error, off");
}
