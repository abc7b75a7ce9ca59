#include "launcher/process/exec_failure.h"

#include "tests/support/catch.h"

#include <cerrno>
#include <string>

using namespace ddprun;
using ddprun::launcher::explain_exec_failure;

namespace {

std::string message(int error_number, std::string_view head) {
  return explain_exec_failure("./train.sh", error_number, head).message();
}

}  // namespace

TEST_CASE("a missing program is not found") {
  const Error error = explain_exec_failure("./train.sh", ENOENT, "");
  CHECK(error.code() == ErrorCode::kNotFound);
  CHECK(error.message() == "cannot run ./train.sh: no such file");
}

TEST_CASE("a script whose interpreter is missing names the interpreter") {
  const Error error = explain_exec_failure("./train.sh", ENOENT, "#! /opt/python3 -u\nimport torch\n");
  CHECK(error.code() == ErrorCode::kCannotExecute);
  CHECK(error.message() ==
        "cannot run ./train.sh: its interpreter /opt/python3 does not exist; install it or correct the first "
        "line");
}

TEST_CASE("Windows line ends in a script are recognised") {
  CHECK(message(ENOENT, "#!/bin/sh\r\necho\r\n") ==
        "cannot run ./train.sh: its first line ends in a carriage return (Windows line ends), so its "
        "interpreter is not "
        "found; convert it with `sed -i 's/\\r$//' ./train.sh`");
}

TEST_CASE("a command that is advised can be pasted, whatever the path") {
  const Error error = explain_exec_failure("./my runs/a'b.sh", ENOENT, "#!/bin/sh\r\n");
  CHECK_THAT(error.message(),
             Catch::Matchers::EndsWith("convert it with `sed -i 's/\\r$//' './my runs/a'\\''b.sh'`"));
}

TEST_CASE("a program for another system is recognised by its missing loader") {
  CHECK(message(ENOENT,
                "\x7f"
                "ELF") ==
        "cannot run ./train.sh: the dynamic loader it was linked for does not exist here; was it built for "
        "another "
        "system?");
}

TEST_CASE("exec format errors say what the file is") {
  CHECK(message(ENOEXEC, "echo hello") ==
        "cannot run ./train.sh: exec format error: it is neither a program nor a script with a #! line");
  CHECK(message(ENOEXEC,
                "\x7f"
                "ELF") ==
        "cannot run ./train.sh: exec format error: it is a program for another kind of machine");
  CHECK(message(ENOEXEC, "") == "cannot run ./train.sh: exec format error: the file is empty");
}

TEST_CASE("a program without permission says how to give it") {
  const Error error = explain_exec_failure("./train.sh", EACCES, "");
  CHECK(error.code() == ErrorCode::kCannotExecute);
  CHECK(error.message() ==
        "cannot run ./train.sh: permission denied; is it a file, executable (`chmod +x`) and on a file "
        "system not "
        "mounted noexec?");
}
