#include "launcher/why/verdict/straggler.h"

#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

using ddprun::launcher::Straggler;
using namespace ddprun::launcher::why;

TEST_CASE("the rank that is last every time is the straggler, by how much and by what share") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (int i = 10; i > 0; --i) {
    enter(a, "all_reduce", i, true);
    enter(b, "all_reduce", i - 0.3, true);
  }
  const Straggler straggler = find_straggler(picture_of({a, b}));
  CHECK(straggler.rank == 1);
  CHECK(static_cast<int>(straggler.late_s * 10 + 0.5) == 3);
  CHECK(static_cast<int>(straggler.share * 100 + 0.5) == 30);
}

TEST_CASE("of several nodes the straggler is the latest of those that share a clock") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_futex);
  for (RankFacts* rank : {&c, &d}) rank->host = "b";
  for (int i = 10; i > 0; --i) {
    enter(a, "all_reduce", i, true);
    enter(b, "all_reduce", i - 0.001, true);
    enter(c, "all_reduce", i + 0.5 - 0.3, true);  // its answer took half a second
    enter(d, "all_reduce", i + 0.5, true);
  }
  JobPicture picture = picture_of({a, b, c, d});
  picture.asks_others = true;
  CHECK(find_straggler(picture).rank == 2);
  const Verdict verdict = judge(picture);
  CHECK(verdict.health == Health::kSlow);
  CHECK(verdict.reason ==
        "rank 2 is the slowest of those on its host: at collectives it comes 300 ms after the first, 30 % of "
        "the time "
        "from one to the next");
}
