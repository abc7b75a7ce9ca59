#include "rendezvous/base/unique_fd.h"

#include "tests/support/catch.h"

#include <fcntl.h>

using namespace ddprun;

namespace {
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }
UniqueFd open_null() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
}  // namespace

TEST_CASE("a descriptor is closed with its owner") {
  int number = -1;
  {
    const UniqueFd fd = open_null();
    number = fd.get();
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("moving keeps it open, once") {
  UniqueFd first = open_null();
  const int number = first.get();
  UniqueFd second = std::move(first);
  CHECK(second.get() == number);
  second.reset();
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a released descriptor is the caller's") {
  UniqueFd fd = open_null();
  const int number = fd.release();
  CHECK_FALSE(fd);
  CHECK(is_open(number));
  fd.reset(number);
}
