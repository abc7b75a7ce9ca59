#include "launcher/output/spool.h"

#include "tests/support/catch.h"

#include <sys/resource.h>

#include <csignal>
#include <string>

using namespace ddprun::launcher;

namespace {

/// The size that a file of this process may have, while it is there.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ignored_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, ignored_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t ignored_ = SIG_DFL;
};

std::string numbers(int from, int to) {
  std::string text;
  for (int number = from; number < to; ++number) text += std::to_string(number) + '\n';
  return text;
}

}  // namespace

TEST_CASE("more than a file may hold goes through a spool, in order, while little waits") {
  const FileLimit limit(100'000);
  Spool spool;
  CHECK(spool.room() == 100'000);
  const std::string all = numbers(0, 100'000);
  std::string came;
  for (std::size_t at = 0; at < all.size(); at += 700) {
    const std::string piece = all.substr(at, 700);
    REQUIRE(spool.push(piece) == piece.size());
    if (spool.size() > 60'000) came += spool.pop(30'000);
  }
  while (spool.size() > 0) came += spool.pop(30'000);
  CHECK(came == all);
}

TEST_CASE("a spool takes as much as it has room for") {
  const FileLimit limit(1000);
  Spool spool;
  CHECK(spool.push(std::string(700, 'a')) == 700);
  CHECK(spool.pop(400) == std::string(400, 'a'));
  CHECK(spool.push(std::string(900, 'b')) == 700);
  CHECK(spool.size() == 1000);
  CHECK(spool.push("c") == 0);
  CHECK(spool.pop(1000) == std::string(300, 'a') + std::string(300, 'b'));
  CHECK(spool.pop(1000) == std::string(400, 'b'));
  CHECK(spool.pop(1000).empty());
}

TEST_CASE("without a limit on files a spool has room for what may wait") {
  CHECK(Spool().room() == Spool::kMostRoom);
}
