#include "worker/training/observers/text.h"

#include "tests/support/catch.h"
#include "worker/training/observers/live_line.h"

using namespace ddprun::training;

namespace {

const LiveLine kLive{2, 5, 30, 79, 0.12345, 9812.4, "images"};

}  // namespace

TEST_CASE("a progress line shows epoch, share, step, loss and speed") {
  CHECK(format_live_line(kLive, 80) == "epoch 2/5   37 %  step 30/79  loss 0.1235  9,812 images/s");
}

TEST_CASE("a live line shows what is left of the job, and its learning rate, where there is room") {
  LiveLine live = kLive;
  live.seconds_left = 125;
  live.learning_rate = 0.001;
  CHECK(format_live_line(live, 100) ==
        "epoch 2/5   37 %  step 30/79  loss 0.1235  9,812 images/s  2:05 left  rate 1.00e-03");
  live.memory_bytes = std::int64_t{3} << 29;
  CHECK(format_live_line(live, 100) ==
        "epoch 2/5   37 %  step 30/79  loss 0.1235  9,812 images/s  2:05 left  rate 1.00e-03  1.5 GiB");
  live.gpu_bytes = std::int64_t{71} << 30;
  CHECK(format_live_line(live, 120) ==
        "epoch 2/5   37 %  step 30/79  loss 0.1235  9,812 images/s  2:05 left  rate 1.00e-03  GPU 71.0 GiB  "
        "1.5 GiB");
  CHECK(format_live_line(live, 70) == "epoch 2/5   37 %  step 30/79  loss 0.1235  9,812 images/s  2:05 left");
}

TEST_CASE("a loss that has grown beyond reading is short") {
  CHECK(human_loss(0.12345) == "0.1235");
  CHECK(human_loss(999999) == "999999.0000");
  CHECK(human_loss(2.0291e32) == "2.03e+32");
}

TEST_CASE("a narrow terminal loses the last parts of a progress line and never wraps") {
  CHECK(format_live_line(kLive, 40) == "epoch 2/5   37 %  step 30/79");
  CHECK(format_live_line(kLive, 10) == "epoch 2/5");
  CHECK(format_live_line(kLive, 4) == "epoc");
  CHECK(format_live_line(kLive, 0).empty());
}

TEST_CASE("numbers are written for people") {
  CHECK(with_thousands(0) == "0");
  CHECK(with_thousands(999) == "999");
  CHECK(with_thousands(1000) == "1,000");
  CHECK(with_thousands(-1234567) == "-1,234,567");
}

TEST_CASE("a path below the working directory is shown relative to it") {
  CHECK(shown_path("/a/b/c.pt", "/a") == "b/c.pt");
  CHECK(shown_path("/x/c.pt", "/a") == "/x/c.pt");
}
