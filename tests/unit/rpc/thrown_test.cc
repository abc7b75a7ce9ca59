#include "worker/runtime/rpc/thrown.h"

#include "tests/support/catch.h"
#include "tests/unit/rpc/what_of.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ddprun::runtime {
namespace {

/// What its caller gets of it.
std::exception_ptr travelled(const Thrown& thrown) {
  return exception_of(read_thrown(write_thrown(thrown)).value());
}

/// As it arrives at the caller.
template <class Error>
std::string after_travelling(const Error& error) {
  return what_of<Error>(travelled(describe_thrown("ps", std::make_exception_ptr(error))));
}

TEST_CASE("an exception of the standard library arrives as what it was, with the worker's name") {
  CHECK(after_travelling(std::invalid_argument("no: such: row")) == "worker 'ps': no: such: row");
  CHECK(after_travelling(std::overflow_error("1e999")) == "worker 'ps': 1e999");
}

TEST_CASE("a class that takes no text arrives as what it was, and goes on as that") {
  CHECK(after_travelling(std::bad_alloc()) == "worker 'ps': std::bad_alloc");
  CHECK(after_travelling(std::bad_optional_access()) == "worker 'ps': bad optional access");
  const auto once = travelled(describe_thrown("deep", std::make_exception_ptr(std::bad_alloc())));
  CHECK(describe_thrown("ps", once).type == "std::bad_alloc");
  CHECK(what_of<std::bad_alloc>(travelled(describe_thrown("ps", once))) ==
        "worker 'ps': worker 'deep': std::bad_alloc");
}

TEST_CASE("an error of the system arrives with its number, and its text once") {
  const std::system_error refused(std::make_error_code(std::errc::connection_refused), "dial");
  CHECK(after_travelling(refused) == "worker 'ps': dial: Connection refused");
  const auto once = travelled(describe_thrown("deep", std::make_exception_ptr(refused)));
  try {
    std::rethrow_exception(travelled(describe_thrown("ps", once)));
  } catch (const std::system_error& error) {
    CHECK(error.code() == std::errc::connection_refused);
  }
  const std::filesystem::filesystem_error absent("open", "/no/such",
                                                 std::make_error_code(std::errc::no_such_file_or_directory));
  CHECK(after_travelling(absent).starts_with("worker 'ps': filesystem error: open: No such file"));
}

TEST_CASE("an error of a category that is unknown here keeps its name and words") {
  const auto arrived = travelled({"ps", "std::system_error/other/7", "no: way"});
  CHECK(what_of<rpc::RemoteError>(arrived) == "worker 'ps': std::system_error/other/7: no: way");
}

TEST_CASE("an Exception keeps its code") {
  const Exception thrown(ErrorCode::kCorrupt, "a bad page");
  const auto arrived = exception_of(describe_thrown("ps", std::make_exception_ptr(thrown)));
  CHECK(what_of<Exception>(arrived) == "worker 'ps': a bad page");
  CHECK(describe_thrown("ps", arrived).type == describe_thrown("ps", std::make_exception_ptr(thrown)).type);
}

TEST_CASE("what travelled before is of the worker that threw it") {
  const rpc::RemoteError of_another("deep", "demo::Error", "worker 'deep': demo::Error: 7");
  const Thrown thrown = describe_thrown("ps", std::make_exception_ptr(of_another));
  CHECK(thrown.worker == "deep");
  CHECK(thrown.type == "demo::Error");
  CHECK(thrown.text == "7");
}

TEST_CASE("a known class stays itself over two workers, whatever its text looks like") {
  const auto once = travelled({"deep", "std::out_of_range", "index 5: too large"});
  const auto twice = travelled(describe_thrown("ps", once));
  CHECK(what_of<std::out_of_range>(twice) == "worker 'ps': worker 'deep': index 5: too large");
}

TEST_CASE("a text without a worker's name is no exception that travelled") {
  CHECK_FALSE(read_thrown("eof"));
  CHECK_FALSE(read_thrown("worker 'ps"));
  CHECK_FALSE(read_thrown("worker 'ps': nothing"));
}

}  // namespace
}  // namespace ddprun::runtime
