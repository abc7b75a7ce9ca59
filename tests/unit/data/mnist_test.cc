#include "worker/data/mnist.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

const std::string kSubset = DDPRUN_SOURCE_DIR "/configs/data/mnist-subset";

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string images_header(char count, char side) {
  return {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, side, 0, 0, 0, side};
}

/// A folder with `count` black images in each split and as many labels, all 3.
void write_set(const TemporaryFolder& folder, char count) {
  for (const char* stem : {"train", "t10k"}) {
    write_file(folder.file(std::string(stem) + "-images-idx3-ubyte"),
               images_header(count, 28) + std::string(static_cast<std::size_t>(count) * 784, '\0'));
    write_file(
        folder.file(std::string(stem) + "-labels-idx1-ubyte"),
        std::string({0, 0, 8, 1, 0, 0, 0, count}) + std::string(static_cast<std::size_t>(count), '\3'));
  }
}

std::string refusal(const TemporaryFolder& folder) {
  return data::load_mnist(data::Mnist::kDigits, folder.path(), {}).error().message();
}

}  // namespace

TEST_CASE("the shipped subset has 10,000 training and 1,000 held-out digits of all classes") {
  const auto splits = data::load_mnist(data::Mnist::kDigits, kSubset, {});
  REQUIRE(splits.has_value());
  CHECK(splits->train.count == 10000);
  CHECK(splits->held_out.count == 1000);
  std::array<int, 10> seen{};
  for (const std::uint8_t label : splits->held_out.labels) ++seen[label];
  CHECK(*std::min_element(seen.begin(), seen.end()) > 50);
}

TEST_CASE("limits keep the first samples of each split") {
  const auto splits = data::load_mnist(data::Mnist::kDigits, kSubset, {100, 10});
  CHECK(splits->train.count == 100);
  CHECK(splits->train.pixels.size() == 100 * 784);
  CHECK(splits->held_out.labels.size() == 10);
}

TEST_CASE("a data folder that is not there is named, with the key to change") {
  CHECK(data::load_mnist(data::Mnist::kDigits, "/nowhere", {}).error().message() ==
        "data folder /nowhere is not there; set /data/path to the folder that holds the four files of MNIST, "
        "or /data/download to true");
}

TEST_CASE("the official files of Fashion-MNIST are not taken for MNIST, nor the other way round") {
  const TemporaryFolder folder;
  const auto write_labels = [&](const std::string& first) {
    write_file(folder.file("t10k-labels-idx1-ubyte"),
               std::string({0, 0, 8, 1, 0, 0, 0x27, 0x10}) + first + std::string(10000 - first.size(), '\0'));
  };
  // Its header alone: the labels are looked at before images are read.
  write_file(folder.file("t10k-images-idx3-ubyte"), {0, 0, 8, 3, 0, 0, 0x27, 0x10, 0, 0, 0, 28, 0, 0, 0, 28});
  write_labels({9, 2, 1, 1, 6, 1, 4, 6, 5, 7});
  CHECK(refusal(folder) ==
        folder.path() +
            " holds Fashion-MNIST, as the first labels of t10k-labels-idx1-ubyte say, and /data/type is "
            "mnist; set /data/type to fashion_mnist, or /data/path to another folder");
  write_labels({7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  CHECK(data::load_mnist(data::Mnist::kFashion, folder.path(), {}).error().message() ==
        folder.path() +
            " holds MNIST, as the first labels of t10k-labels-idx1-ubyte say, and /data/type is "
            "fashion_mnist; set /data/type to mnist, or /data/path to another folder");
  CHECK_THAT(refusal(folder), Catch::Matchers::Contains("t10k-images-idx3-ubyte is truncated"));
}

TEST_CASE("a missing MNIST file is named") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  std::filesystem::remove(folder.file("train-images-idx3-ubyte"));
  CHECK(refusal(folder) ==
        "MNIST file " + folder.file("train-images-idx3-ubyte") +
            " is not there, neither plain nor with .gz; set /data/path to the folder that holds the four "
            "files of MNIST, or /data/download to true");
}

TEST_CASE("images and labels of different numbers are refused") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  write_file(folder.file("train-labels-idx1-ubyte"), std::string({0, 0, 8, 1, 0, 0, 0, 1, 3}));
  CHECK(refusal(folder) ==
        folder.path() +
            "/train-images-idx3-ubyte has 2 images, but train-labels-idx1-ubyte has 1 labels; "
            "they are not of one set");
}

TEST_CASE("a label above 9 is refused with its place") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  write_file(folder.file("t10k-labels-idx1-ubyte"), std::string({0, 0, 8, 1, 0, 0, 0, 2, 3, 10}));
  CHECK(refusal(folder) ==
        folder.path() + "/t10k-labels-idx1-ubyte is damaged: label 1 is 10, expected 0 to 9");
}

TEST_CASE("images of another size are refused") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  write_file(folder.file("t10k-images-idx3-ubyte"), images_header(2, 2) + std::string(8, '\0'));
  CHECK(refusal(folder) ==
        folder.path() + "/t10k-images-idx3-ubyte holds images of 2 × 2 pixels, expected 28 × 28");
}

TEST_CASE("files whose headers announce another set are refused before anything after the headers is read") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  write_file(folder.file("t10k-images-idx3-ubyte"), images_header(2, 100));
  CHECK(refusal(folder) ==
        folder.path() + "/t10k-images-idx3-ubyte holds images of 100 × 100 pixels, expected 28 × 28");
  write_file(folder.file("t10k-images-idx3-ubyte"), images_header(3, 28));
  CHECK(refusal(folder) ==
        folder.path() +
            "/t10k-images-idx3-ubyte has 3 images, but t10k-labels-idx1-ubyte has 2 labels; "
            "they are not of one set");
}

TEST_CASE("labels that a header announces by the hundred million are refused") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  const std::string path = folder.file("t10k-labels-idx1-ubyte");
  write_file(path, std::string({0, 0, 8, 1, 0x08, 0, 0, 1, 3}));
  CHECK(refusal(folder) ==
        path +
            " is damaged: its header announces 134217729 elements, more than the 134217736 bytes "
            "such a file can have; fetch it again");
}

TEST_CASE("a packed file that holds more than its header says is refused, and not inflated") {
  const TemporaryFolder folder;
  write_set(folder, 2);
  const std::string path = folder.file("t10k-labels-idx1-ubyte");
  std::filesystem::remove(path);
  const std::string bytes = std::string({0, 0, 8, 1, 0, 0, 0, 2}) + std::string(std::size_t{64} << 20, '\3');
  gzFile file = gzopen((path + ".gz").c_str(), "wb1");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  CHECK(refusal(folder) == path +
                               ".gz is damaged: its header announces 2 = 2 bytes of data, more follow; "
                               "fetch it again");
}
