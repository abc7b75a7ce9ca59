#include "worker/training/observers/text.h"

#include "tests/support/catch.h"
#include "worker/training/observers/console_observer.h"
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
}

TEST_CASE("a terminal of 80 columns has room for all of a live line, in shorter words") {
  LiveLine live = kLive;
  live.seconds_left = 125;
  live.learning_rate = 0.001;
  CHECK(format_live_line(live, 79) ==
        "epoch 2/5  step 30/79  loss 0.1235  9,812 images/s  2:05 left  rate 1.00e-03");
  live.memory_bytes = std::int64_t{3} << 29;
  CHECK(format_live_line(live, 79) ==
        "epoch 2/5  step 30/79  loss 0.1235  9,812/s  2:05 left  lr 1.00e-03  1.5 GiB");
  live.gpu_bytes = std::int64_t{71} << 30;
  CHECK(format_live_line(live, 79) ==
        "ep 2/5 step 30/79 loss 0.1235 9,812/s 2:05 left lr 1.0e-03 GPU 71.0G 1.5G");
  CHECK(format_live_line(live, 70) == "ep 2/5 step 30/79 loss 0.1235 9,812/s 2:05 left lr 1.0e-03 GPU 71.0G");
}

TEST_CASE("a long job's live line keeps the scarcer memory on 80 columns") {
  LiveLine live{12, 90, 1234, 5004, 2.12345, 12812.4, "images"};
  live.seconds_left = 43325;
  live.learning_rate = 0.001;
  live.memory_bytes = std::int64_t{23} << 29;
  CHECK(format_live_line(live, 79) ==
        "ep 12/90 step 1234/5004 loss 2.1235 12,812/s 12:02:05 left lr 1.0e-03 11.5G");
  live.gpu_bytes = std::int64_t{71} << 30;
  CHECK(format_live_line(live, 79) ==
        "ep 12/90 step 1234/5004 loss 2.1235 12,812/s 12:02:05 left lr 1.0e-03 GPU 71.0G");
}

TEST_CASE("a loss that has grown beyond reading is short") {
  CHECK(human_loss(0.12345) == "0.1235");
  CHECK(human_loss(999999) == "999999.0000");
  CHECK(human_loss(2.0291e32) == "2.03e+32");
}

TEST_CASE("a narrow terminal loses the last parts of a progress line and never wraps") {
  CHECK(format_live_line(kLive, 40) == "ep 2/5 step 30/79 loss 0.1235 9,812/s");
  CHECK(format_live_line(kLive, 30) == "ep 2/5 step 30/79 loss 0.1235");
  CHECK(format_live_line(kLive, 10) == "ep 2/5");
  CHECK(format_live_line(kLive, 4) == "ep 2");
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

TEST_CASE("one image is no images") {
  CHECK(unit_for(1, "images") == "image");
  CHECK(unit_for(0, "images") == "images");
  CHECK(unit_for(2, "tokens") == "tokens");
}

TEST_CASE("a job whose epochs were lowered below those it has done says both numbers") {
  CHECK(epochs_in_words(2, 3) == "2 of 3 epochs");
  CHECK(epochs_in_words(1, 1) == "1 of 1 epochs");
  CHECK(epochs_in_words(2, 1) == "2 epochs (/train/epochs is 1)");
}

TEST_CASE(
    "what is said to train a complete job on makes it longer than it is, also where it was made shorter") {
  CHECK(setting_to_train_on({.epoch = 3, .step = 30}, {.epochs = 3}) == "/train/epochs=6");
  CHECK(setting_to_train_on({.epoch = 2, .step = 20}, {.epochs = 1}) == "/train/epochs=4");
  CHECK(setting_to_train_on({.epoch = 1, .step = 20}, {.epochs = 3, .max_steps = 5}) ==
        "/train/max_steps=40");
  CHECK(setting_to_train_on({.epoch = 3, .step = 30}, {.epochs = 3, .max_steps = 30}) ==
        "/train/epochs=6 --set /train/max_steps=60");
  CHECK(setting_to_train_on({.epoch = 1, .step = 10, .plateau = {.evaluations = 4}},
                            {.epochs = 3, .patience = 2}) == "/early_stopping/patience=8");
}
