#include "worker/training/step/foreign_error.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>

#include <c10/util/Exception.h>

using namespace ddprun;

namespace {

template <class T>
Error described(const T& exception) {
  return training::describe_exception(std::make_exception_ptr(exception));
}

}  // namespace

TEST_CASE("our own exceptions keep code and message") {
  const Error error = described(Exception(ErrorCode::kConfig, "wrong"));
  CHECK(error.code() == ErrorCode::kConfig);
  CHECK(error.message() == "wrong");
}

TEST_CASE("a lost connection of gloo is a lost peer and not a bug") {
  const Error error =
      described(std::runtime_error("[/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer"));
  CHECK(error.code() == ErrorCode::kPeerLost);
  CHECK_THAT(error.message(), Catch::Matchers::StartsWith("the ranks lost each other: "));
}

TEST_CASE("memory that runs out says what needs less of it") {
  CHECK(described(std::bad_alloc()).message() == "out of memory; a smaller /train/batch_size needs less");
}

TEST_CASE("libtorch's errors lose their stack trace") {
  try {
    TORCH_CHECK(false, "sizes differ");
  } catch (...) {
    CHECK(training::describe_exception(std::current_exception()).message() == "libtorch: sizes differ");
  }
}
