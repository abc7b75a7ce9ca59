#include "worker/runtime/rpc/failure.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>

namespace ddprun::runtime {
namespace {

const FailedCall kCall{"demo::add", "ps", std::chrono::milliseconds(1500)};

template <class Error>
std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.what();
  } catch (...) {
    return "another class";
  }
}

/// As it arrives at the caller.
template <class Error>
std::string after_travelling(const Error& error) {
  return what_of<Error>(
      exception_for(kCall, write_thrown(describe_thrown("ps", std::make_exception_ptr(error)))));
}

ErrorCode code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Exception& known) {
    return known.code();
  } catch (...) {
    return ErrorCode::kInternal;
  }
}

TEST_CASE("an exception of the standard library arrives as what it was, with the worker's name") {
  CHECK(after_travelling(std::invalid_argument("no: such: row")) == "worker 'ps': no: such: row");
  CHECK(after_travelling(std::overflow_error("1e999")) == "worker 'ps': 1e999");
}

TEST_CASE("an Exception keeps its code") {
  const Exception thrown(ErrorCode::kCorrupt, "a bad page");
  const auto arrived =
      exception_for(kCall, write_thrown(describe_thrown("ps", std::make_exception_ptr(thrown))));
  CHECK(code_of(arrived) == ErrorCode::kCorrupt);
  CHECK(what_of<Exception>(arrived) == "worker 'ps': a bad page");
}

TEST_CASE("what travelled before is of the worker that threw it") {
  const rpc::RemoteError of_another("deep", "demo::Error", "worker 'deep': demo::Error: 7");
  const Thrown thrown = describe_thrown("ps", std::make_exception_ptr(of_another));
  CHECK(thrown.worker == "deep");
  CHECK(thrown.type == "demo::Error");
  CHECK(thrown.text == "7");
}

TEST_CASE("a known class stays itself over two workers, whatever its text looks like") {
  const auto once = exception_for(kCall, write_thrown({"deep", "std::out_of_range", "index 5: too large"}));
  const auto twice = exception_for(kCall, write_thrown(describe_thrown("ps", once)));
  CHECK(what_of<std::out_of_range>(twice) == "worker 'ps': worker 'deep': index 5: too large");
}

TEST_CASE("a text without a worker's name is no exception that travelled") {
  CHECK_FALSE(read_thrown("eof"));
  CHECK_FALSE(read_thrown("worker 'ps"));
  CHECK_FALSE(read_thrown("worker 'ps': nothing"));
}

TEST_CASE("a peer that is gone is named") {
  const auto gone =
      exception_for(kCall, "eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)");
  CHECK(code_of(gone) == ErrorCode::kPeerLost);
  CHECK(what_of<Exception>(gone) ==
        "rpc: demo::add on worker 'ps': the worker is gone (eof); its own last words, or the launcher's "
        "report, say why");
}

TEST_CASE("a call that took too long says how long that was") {
  const auto late = exception_for(
      kCall, "RPCErr:1:RPC ran for more than set timeout (1500 ms) and will now be marked with an error");
  CHECK(code_of(late) == ErrorCode::kTimeout);
  CHECK(what_of<Exception>(late) ==
        "rpc: demo::add on worker 'ps': no answer within 1.5 s; it may still be at work: name a longer time "
        "in To");
}

TEST_CASE("an operator that the other side's libtorch has not is told as that") {
  const auto unknown = exception_for(
      kCall, "Error on Node 1: Cannot find matching operator for schema aten::new_one() -> int");
  CHECK(code_of(unknown) == ErrorCode::kNotFound);
}

TEST_CASE("what nobody knows keeps its words") {
  CHECK(what_of<rpc::RemoteError>(exception_for(kCall, "a riddle")) ==
        "rpc: demo::add on worker 'ps': a riddle");
}

}  // namespace
}  // namespace ddprun::runtime
