#include "worker/runtime/rpc/failure.h"

#include "tests/support/catch.h"
#include "tests/unit/rpc/what_of.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <string>

namespace ddprun::runtime {
namespace {

const FailedCall kCall{"demo::add", "ps", std::chrono::milliseconds(1500)};

ErrorCode code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Exception& known) {
    return known.code();
  } catch (...) {
    return ErrorCode::kInternal;
  }
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

TEST_CASE("a worker that lost another one is not the one that is gone") {
  const auto gone = exception_for(
      kCall,
      "Error on Node 1: eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)");
  CHECK(code_of(gone) == ErrorCode::kPeerLost);
  CHECK(what_of<Exception>(gone) ==
        "rpc: demo::add on worker 'ps': a worker that it called is gone (eof); that one's last words, or the "
        "launcher's report, say which and why");
}

TEST_CASE("what the other side's agent throws of ours arrives as what it was") {
  const auto refused =
      exception_for(kCall, "Error on Node 1: worker 'ps': ddprun::Exception/config: there is no such class");
  CHECK(code_of(refused) == ErrorCode::kConfig);
  CHECK(what_of<Exception>(refused) == "worker 'ps': there is no such class");
}

TEST_CASE("what nobody knows keeps its words") {
  CHECK(what_of<rpc::RemoteError>(exception_for(kCall, "a riddle")) ==
        "rpc: demo::add on worker 'ps': a riddle");
}

TEST_CASE("a rank that the store waits for in vain is late") {
  CHECK(is_late_rank("wait timeout after 3000ms, keys: rpc_prefix_0/0/1"));
  CHECK(is_late_rank("[../gloo/transport/tcp/pair.cc] Timed out waiting 3000ms for recv"));
  CHECK_FALSE(is_late_rank("Connection reset by peer"));
}

}  // namespace
}  // namespace ddprun::runtime
