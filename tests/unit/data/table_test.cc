#include "worker/data/table.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "tests/unit/data/npy_bytes.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace ddprun;
using ddprun::testing::header_of;
using ddprun::testing::npy;
using ddprun::testing::TemporaryFolder;

namespace {

at::Tensor doubles(const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); }

/// Of train.csv and test.csv in a folder, with the last column to be learned.
Options csv_options(const TemporaryFolder& folder, const std::string& more) {
  return Options(R"({"path": ")" + folder.path() +
                     R"(", "target": "", "train_samples": 0, "test_samples": 0, )" + more + "}",
                 "/data");
}

data::Table two_rows(const std::vector<double>& targets) {
  return {torch::tensor({{1.0, 2.0}, {3.0, 4.0}}, torch::kDouble), torch::tensor(targets, torch::kDouble)};
}

}  // namespace

TEST_CASE("columns go by their names, in a file of test data and in data to be judged by") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
  };
  const auto open = [&](const std::string& options) { return data::open_csv(csv_options(folder, options)); };
  const auto held_out = [&](const std::string& options) {
    const std::vector<std::int64_t> all{0};
    return open(options).held_out->make_batch({.indices = all});
  };
  write("train.csv", "a,b,y\n0,1,5\n10,5,6\n");
  write("test.csv", "y,b,a\n7,9,20\n");
  const std::string raw = R"("standardize": false, "classes": 0)",
                    scaled = R"("standardize": true, "classes": 0)";
  CHECK(torch::equal(held_out(raw).tensors[0], torch::tensor({{20.0F, 9.0F}})));
  CHECK(torch::equal(held_out(raw).tensors[1], torch::tensor({{7.0F}})));
  CHECK(torch::equal(held_out(scaled).tensors[0], torch::tensor({{3.0F, 3.0F}})));

  // As of the folder "elsewhere", whose numbers these are judged by.
  const TemporaryFolder trained;
  std::ofstream(trained.file("train.csv")) << "b,a,y\n1,1,0\n3,5,0\n";
  const std::string as_trained = R"(, "trained_on": {"path": ")" + trained.path() +
                                 R"(", "target": "y", "train_samples": 0, "standardize": true})";
  CHECK(torch::equal(held_out(scaled + as_trained).tensors[0], torch::tensor({{7.0F, 8.5F}})));
  CHECK(open(scaled + as_trained).held_out->shape().columns == std::vector<std::string>{"b", "a"});
  write("test.csv", "b,a,price\n9,20,7\n");
  write("train.csv", "b,a,price\n9,20,7\n");
  CHECK(torch::equal(held_out(scaled + as_trained).tensors[1], torch::tensor({{7.0F}})));
  write("train.csv", "price,a,b\n7,20,9\n");  // as a number of the row would stand
  CHECK_THROWS_WITH(held_out(scaled + as_trained),
                    "/data/target: " + folder.file("train.csv") + " has no column y; there are price, a, b");
  write("train.csv", "a,b,price\n20,9,7\n");
  write("test.csv", "a,b,id\n20,9,1\n");
  CHECK_THROWS_WITH(held_out(scaled),
                    "/data/target: " + folder.file("test.csv") + " has no column price; there are a, b, id");
  write("train.csv", "c,a,y\n7,20,9\n");
  CHECK_THROWS_WITH(
      held_out(scaled + as_trained),
      folder.file("train.csv") + " has no column b, which the training data has; there are c, a, y");
}

TEST_CASE("rows in another order are the same data, and others are not") {
  const auto scaling_of = [](const std::vector<double>& numbers) {
    const TemporaryFolder folder;
    for (const char* name : {"train.csv", "test.csv"}) {
      std::ofstream file(folder.file(name));
      file << "a,y\n";
      for (const double number : numbers) file << fmt::format("{},0\n", number);
    }
    return data::open_csv(csv_options(folder, R"("standardize": true, "classes": 0)")).train->shape().scaling;
  };
  std::vector<double> centred;
  for (int i = 1; i <= 101; ++i) centred.insert(centred.end(), {0.1 * i, -0.1 * i});
  const std::string whole = scaling_of(centred);
  std::sort(centred.begin(), centred.end());
  CHECK(scaling_of(centred) == whole);
  std::rotate(centred.begin(), centred.begin() + 67, centred.end());
  CHECK(scaling_of(centred) == whole);
  centred.push_back(11);
  CHECK(scaling_of(centred) != whole);
}

TEST_CASE("a target that is not there is refused with what is") {
  const TemporaryFolder folder;
  for (const char* name : {"train.csv", "test.csv"}) std::ofstream(folder.file(name)) << "a,b\n1,2\n";
  const Options options(
      R"({"path": ")" + folder.path() +
          R"(", "target": "c", "train_samples": 0, "test_samples": 0, "standardize": false, "classes": 0})",
      "/data");
  CHECK_THROWS_WITH(data::open_csv(options),
                    "/data/target: " + folder.file("train.csv") + " has no column c; there are a, b");
}

TEST_CASE("samples of one number need no second dimension, and numbers have to be finite") {
  const data::TableSource source(data::Table{doubles({1, 2}), doubles({0, 1})}, 0, "x");
  CHECK(source.shape().tensors[0].sizes == std::vector<std::int64_t>{1});
  CHECK_THROWS_WITH(data::TableSource(data::Table{doubles({1, NAN}).view({1, 2}), doubles({0})}, 0, "x"),
                    "x: sample 0 holds nan, which is no finite number");
  CHECK_THROWS_WITH(data::TableSource(data::Table{torch::empty({2, 0}), doubles({0, 1})}, 0, "x"),
                    "x: its samples hold no number");
}

TEST_CASE("a table yields classes where there are some, else numbers") {
  const std::vector<std::int64_t> indices{1, 0};
  const data::TableSource classes(two_rows({0, 2}), 3, "x");
  const Batch batch = classes.make_batch({.indices = indices});
  CHECK(torch::equal(batch.tensors[0], torch::tensor({{3.0F, 4.0F}, {1.0F, 2.0F}})));
  CHECK(torch::equal(batch.tensors[1], torch::tensor({2, 0}, torch::kLong)));
  const data::TableSource numbers(two_rows({0.5, 2}), 0, "x");
  CHECK(torch::equal(numbers.make_batch({.indices = indices}).tensors[1], torch::tensor({{2.0F}, {0.5F}})));
  CHECK(numbers.shape().classes == 0);
}

TEST_CASE("arrays of other widths for training and test are refused with those that differ") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& shape, std::size_t bytes) {
    const std::vector<std::uint8_t> file = npy(header_of("|u1", shape), std::string(bytes, '\1'));
    std::ofstream(folder.file(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  };
  const Options options(
      R"({"path": ")" + folder.path() + R"(", "classes": 0, "train_samples": 0, "test_samples": 0})",
      "/data");
  write("train_x.npy", "(2, 3)", 6);
  write("train_y.npy", "(2, 5)", 10);
  write("test_x.npy", "(2, 3)", 6);
  write("test_y.npy", "(2, 4)", 8);
  CHECK_THROWS_WITH(data::open_npy(options),
                    "the training data of " + folder.path() +
                        " has targets of shape [5] and the test data of shape [4]; they are not of one set");
  write("test_x.npy", "(2, 2)", 4);
  CHECK_THROWS_WITH(data::open_npy(options),
                    "the training data of " + folder.path() +
                        " has samples of shape [3] and the test data of shape [2]; they are not of one set");
}

TEST_CASE("rows without a target keep the numbers of their lines") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("train.csv")) << "a,b,y\n1,7,0\n3,8,1\n";
  const Options options = csv_options(folder, R"("standardize": false, "classes": 2)");
  std::ofstream(folder.file("rows.csv")) << "\n\na,b\n\n1,2\n3,4\n\n";
  CHECK(torch::equal(data::read_csv_features(options, folder.file("rows.csv")),
                     doubles({1, 2, 3, 4}).view({2, 2})));
  std::ofstream(folder.file("rows.csv")) << "\n\na,b\n\n1,2\n\n\n3,x\n";
  CHECK_THROWS_WITH(data::read_csv_features(options, folder.file("rows.csv")),
                    folder.file("rows.csv") + ", line 8, column b: expected a number, got \"x\"");
}

TEST_CASE("rows are predicted without a target whose name has a comma") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("train.csv")) << "a,b,\"price, EUR\"\n1,7,0\n3,8,1\n";
  const Options options = csv_options(folder, R"("standardize": false, "classes": 2)");
  for (const char* text : {"a,b\n1,2\n", "b,\"price, EUR\",a\n2,9,1\n"}) {
    std::ofstream(folder.file("rows.csv")) << text;
    CHECK(torch::equal(data::read_csv_features(options, folder.file("rows.csv")),
                       doubles({1, 2}).view({1, 2})));
  }
}

TEST_CASE("targets that are no classes, or too few, are refused") {
  CHECK_THROWS_WITH(data::TableSource(two_rows({0, 0.5}), 3, "x"),
                    "x: the target of sample 1 is 0.5, expected a class of 0 to 2");
  CHECK_THROWS_WITH(data::TableSource(two_rows({0}), 3, "x"), "x: there are 2 samples and 1 targets");
  CHECK_THROWS_WITH(data::TableSource(two_rows({0, NAN}), 0, "x"),
                    "x: the target of sample 1 is nan, which is no finite number");
  CHECK_THROWS_WITH(data::TableSource(two_rows({1e39, 0}), 0, "x"),
                    "x: the target of sample 0 is 1e+39, which is no finite number in float32");
}

TEST_CASE("CSV columns are standardised with the training data's mean and deviation") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("train.csv")) << "a,same,y\n1,7,0\n3,7,1\n";
  std::ofstream(folder.file("test.csv")) << "a,same,y\n4,7,1\n";
  const DataSplits splits = data::open_csv(csv_options(folder, R"("standardize": true, "classes": 2)"));
  const std::vector<std::int64_t> first{0};
  CHECK(
      torch::equal(splits.train->make_batch({.indices = first}).tensors[0], torch::tensor({{-1.0F, 0.0F}})));
  CHECK(torch::equal(splits.held_out->make_batch({.indices = first}).tensors[0],
                     torch::tensor({{2.0F, 0.0F}})));
}

TEST_CASE("a column of equal numbers is not scaled, whatever rounding leaves of their mean") {
  const TemporaryFolder folder;
  std::ofstream train(folder.file("train.csv"));
  train << "same,y\n";
  for (int row = 0; row < 1000; ++row) train << "0.1," << row % 2 << "\n";
  train.close();
  std::ofstream(folder.file("test.csv")) << "same,y\n0.2,1\n";
  const DataSplits splits = data::open_csv(csv_options(folder, R"("standardize": true, "classes": 2)"));
  const std::vector<std::int64_t> first{0};
  CHECK(splits.held_out->make_batch({.indices = first}).tensors[0].item<float>() == Approx(0.1));
  CHECK(splits.train->make_batch({.indices = first}).tensors[0].item<float>() == 0);
}
