#include "worker/data/table.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include <ddprun/exception.h>

#include <torch/torch.h>

#include <cmath>
#include <fstream>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

using Bytes = std::vector<std::uint8_t>;

/// An .npy file of version 1.
Bytes npy(const std::string& header, const std::string& data) {
  const std::string text =
      std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
  return {text.begin(), text.end()};
}

std::string header_of(const std::string& kind, const std::string& shape,
                      const std::string& fortran = "False") {
  return "{'descr': '" + kind + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

std::string csv_refusal(const std::string& text, const std::string& target = "") {
  return data::parse_csv(text, target, "x.csv").error().message();
}

std::string npy_refusal(const Bytes& bytes) { return data::parse_npy(bytes, "x.npy").error().message(); }

at::Tensor doubles(const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); }

data::Table two_rows(const std::vector<double>& targets) {
  return {torch::tensor({{1.0, 2.0}, {3.0, 4.0}}, torch::kDouble), torch::tensor(targets, torch::kDouble)};
}

}  // namespace

TEST_CASE("a CSV file gives features and the column to be learned, whichever it is") {
  const std::string text = "a, \"b\",c\r\n1,2.5,-3e1\r\n\n4,5,6\n";
  const auto last = data::parse_csv(text, "", "x.csv");
  REQUIRE(last.has_value());
  CHECK(torch::equal(last->features, doubles({1, 2.5, 4, 5}).view({2, 2})));
  CHECK(torch::equal(last->targets, doubles({-30, 6})));
  CHECK(torch::equal(data::parse_csv(text, "b", "x.csv")->targets, doubles({2.5, 5})));
}

TEST_CASE(
    "a CSV file of Excel or pandas is read: a byte order mark, names with commas, signs, tiny numbers") {
  const auto table = data::parse_csv("\xef\xbb\xbf\"name, unit\",b\r\n+3,\"1e-400\"\n", "", "x.csv");
  REQUIRE(table.has_value());
  CHECK(table->columns == std::vector<std::string>{"name, unit", "b"});
  CHECK(torch::equal(table->features, doubles({3}).view({1, 1})));
  CHECK(torch::equal(table->targets, doubles({0})));
  CHECK(csv_refusal("a,b\n1,1e400\n") == "x.csv, line 2, column b: expected a finite number, got \"1e400\"");
  CHECK(data::parse_csv("size 5\",b,class\n1,2,3\n", "", "x.csv")->columns.size() == 3);
  for (const std::string cell : {"+-3", "+", "3+", "++3"})
    CHECK(csv_refusal("a,b\n1," + cell + "\n") ==
          "x.csv, line 2, column b: expected a number, got \"" + cell + "\"");
}

TEST_CASE("what a CSV file says is shown without its control characters, and in part where it is long") {
  CHECK(csv_refusal("a,\x1b[31mb\n1,\x1b]0;x\a\xff\n") ==
        "x.csv, line 2, column \\x1b[31mb: expected a number, got \"\\x1b]0;x\\x07?\"");
  CHECK(csv_refusal("a,b\n1," + std::string(1000, 'x') + "\n").size() < 150);
  CHECK(csv_refusal("a,\tb\x01\n1,2\n", "c") == "/data/target: x.csv has no column c; there are a, b\\x01");
  std::string wide = "x";
  for (int i = 0; i < 30; ++i) wide += ",y" + std::to_string(i);
  CHECK(csv_refusal(wide + "\n1,2\n", "c").ends_with("y17, y18, and 11 more"));
}

TEST_CASE("a CSV file that is wrong is refused with line and column") {
  CHECK(csv_refusal("a,b\n") == "x.csv has no rows: expected a line of names, and numbers below");
  CHECK(csv_refusal("a,b\n1,2\n3\n") == "x.csv, line 3: expected 2 numbers, one for each name, got 1");
  CHECK(csv_refusal("a,b\n1,x\n") == "x.csv, line 2, column b: expected a number, got \"x\"");
  CHECK(csv_refusal("a,b\n,1\n") == "x.csv, line 2, column a: expected a number, got \"\"");
  CHECK(csv_refusal("a,b\n1,2\n", "c") == "/data/target: x.csv has no column c; there are a, b");
}

TEST_CASE("a cell of a CSV file that is no finite number is refused with line and column, also a target") {
  CHECK(csv_refusal("a,b\n1,2\nnan,4\n") == "x.csv, line 3, column a: expected a finite number, got \"nan\"");
  CHECK(csv_refusal("a,b\n1,-inf\n") == "x.csv, line 2, column b: expected a finite number, got \"-inf\"");
}

TEST_CASE("columns of one name, and files whose columns are in another order, are refused") {
  CHECK(csv_refusal("a,a,y\n1,2,3\n") == "x.csv has two columns \"a\"");
  const TemporaryFolder folder;
  std::ofstream(folder.file("train.csv")) << "a,b,y\n1,2,0\n";
  std::ofstream(folder.file("test.csv")) << "b,a,y\n1,2,0\n";
  const Options options(
      R"({"path": ")" + folder.path() +
      R"(", "target": "", "train_samples": 0, "test_samples": 0, "standardize": false, "classes": 0})");
  CHECK_THROWS_WITH(data::open_csv(options), "the columns of " + folder.path() +
                                                 "/train.csv are a, b, y, and those of " + folder.path() +
                                                 "/test.csv b, a, y; give both the same, in one order");
}

TEST_CASE("samples of one number need no second dimension, and numbers have to be finite") {
  const data::TableSource source(data::Table{doubles({1, 2}), doubles({0, 1})}, 0, "x");
  CHECK(source.shape().tensors[0].sizes == std::vector<std::int64_t>{1});
  CHECK_THROWS_WITH(data::TableSource(data::Table{doubles({1, NAN}).view({1, 2}), doubles({0})}, 0, "x"),
                    "x: sample 0 holds nan, which is no finite number");
  CHECK_THROWS_WITH(data::TableSource(data::Table{torch::empty({2, 0}), doubles({0, 1})}, 0, "x"),
                    "x: its samples hold no number");
}

TEST_CASE("an .npy file gives rows of numbers") {
  const auto bytes = data::parse_npy(npy(header_of("|u1", "(2, 3)"), "\x01\x02\x03\x04\x05\xff"), "x.npy");
  REQUIRE(bytes.has_value());
  CHECK(torch::equal(*bytes, torch::tensor({1, 2, 3, 4, 5, 255}, torch::kByte).view({2, 3})));
  const auto wide =
      data::parse_npy(npy(header_of("<i8", "(1,)"), std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8)), "x");
  CHECK(torch::equal(*wide, torch::tensor({-2}, torch::kLong)));
  const auto of_two = data::parse_npy(npy(header_of("<u2", "(2,)"), std::string("\x01\x00\xff\xff", 4)), "x");
  CHECK(torch::equal(*of_two, torch::tensor({1, 65535}, torch::kInt)));
  const auto of_four = data::parse_npy(npy(header_of("<u4", "(1,)"), "\xff\xff\xff\xff"), "x");
  CHECK(torch::equal(*of_four, torch::tensor({4294967295}, torch::kLong)));
}

TEST_CASE("an .npy file that is wrong is refused with what was found") {
  const std::string start = "x.npy is no file of numpy.save that can be read: ";
  CHECK(npy_refusal({1, 2, 3}) == start + "it does not begin as one");
  CHECK(npy_refusal(npy(header_of("<c8", "(1,)"), "12345678")) == start + "its numbers are of kind '<c8'");
  CHECK(npy_refusal(npy(header_of("|u1", "(2, 2)", "True"), "1234")) ==
        start + "it is in Fortran's order; save numpy.ascontiguousarray of it");
  CHECK(npy_refusal(npy(header_of("|u1", "()"), "1")) == start + "it holds a single number, expected rows");
  CHECK(npy_refusal(npy(header_of("<f4", "(3,)"), "12345678")) ==
        start + "its shape is (3), and 8 bytes of 4 each follow");
  CHECK(npy_refusal(npy(header_of("|u1", "(1099511627776, 1099511627776)"), "1")) ==
        start + "its shape is (1099511627776, 1099511627776), and 1 bytes of 1 each follow");
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
    const Bytes file = npy(header_of("|u1", shape), std::string(bytes, '\1'));
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
  const Options options(R"({"path": ")" + folder.path() +
                            R"(", "target": "", "standardize": false, "classes": 2, "train_samples": 0})",
                        "/data");
  std::ofstream(folder.file("rows.csv")) << "\n\na,b\n\n1,2\n3,4\n\n";
  CHECK(torch::equal(data::read_csv_features(options, folder.file("rows.csv")),
                     doubles({1, 2, 3, 4}).view({2, 2})));
  std::ofstream(folder.file("rows.csv")) << "\n\na,b\n\n1,2\n\n\n3,x\n";
  CHECK_THROWS_WITH(data::read_csv_features(options, folder.file("rows.csv")),
                    folder.file("rows.csv") + ", line 8, column b: expected a number, got \"x\"");
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
  const DataSplits splits = data::open_csv(Options(
      R"({"path": ")" + folder.path() +
          R"(", "target": "", "standardize": true, "classes": 2, "train_samples": 0, "test_samples": 0})",
      "/data"));
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
  const DataSplits splits = data::open_csv(Options(
      R"({"path": ")" + folder.path() +
          R"(", "target": "", "standardize": true, "classes": 2, "train_samples": 0, "test_samples": 0})",
      "/data"));
  const std::vector<std::int64_t> first{0};
  CHECK(splits.held_out->make_batch({.indices = first}).tensors[0].item<float>() == Approx(0.1));
  CHECK(splits.train->make_batch({.indices = first}).tensors[0].item<float>() == 0);
}
