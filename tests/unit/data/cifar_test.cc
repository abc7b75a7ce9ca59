#include "worker/data/cifar.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <filesystem>
#include <fstream>

using namespace ddprun;
using data::Cifar;
using ddprun::testing::TemporaryFolder;

namespace {

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Pixels of one value in each plane: value, value + 1, value + 2.
std::string planes(char value) {
  std::string bytes;
  for (int plane = 0; plane < 3; ++plane) bytes += std::string(1024, static_cast<char>(value + plane));
  return bytes;
}

void write_ten(const TemporaryFolder& folder) {
  write_bytes(folder.file("data_batch_1.bin"), "\3" + planes(10) + "\4" + planes(20));
  write_bytes(folder.file("data_batch_2.bin"), "\5" + planes(30));
  write_bytes(folder.file("test_batch.bin"), "\6" + planes(40));
}

std::string refusal_in(Cifar which, const TemporaryFolder& folder) {
  return data::load_cifar(which, folder.path(), {}).error().message();
}

}  // namespace

TEST_CASE("CIFAR-10 is read from as many batches as there are") {
  const TemporaryFolder folder;
  write_ten(folder);
  const auto splits = data::load_cifar(Cifar::k10, folder.path(), {});
  REQUIRE(splits.has_value());
  CHECK(splits->train.count == 3);
  CHECK(splits->train.labels == std::vector<std::uint8_t>{3, 4, 5});
  CHECK(splits->train.pixels.size() == 3 * 3072);
  CHECK(splits->train.pixels[3072 + 1024] == 21);
  CHECK(splits->held_out.labels == std::vector<std::uint8_t>{6});
}

TEST_CASE("limits keep the first images of CIFAR") {
  const TemporaryFolder folder;
  write_ten(folder);
  const auto splits = data::load_cifar(Cifar::k10, folder.path(), {.train = 2, .held_out = 1});
  CHECK(splits->train.labels == std::vector<std::uint8_t>{3, 4});
  CHECK(splits->train.pixels.size() == 2 * 3072);
}

TEST_CASE("CIFAR-100 takes the fine label, and names of classes from their file") {
  const TemporaryFolder folder;
  write_bytes(folder.file("train.bin"), "\7\x63" + planes(1));
  write_bytes(folder.file("test.bin"), "\7\1" + planes(1));
  std::string names;
  for (int i = 0; i < 100; ++i) names += "class " + std::to_string(i) + "\n";
  write_bytes(folder.file("fine_label_names.txt"), names);
  const auto splits = data::load_cifar(Cifar::k100, folder.path(), {});
  REQUIRE(splits.has_value());
  CHECK(splits->train.labels == std::vector<std::uint8_t>{99});
  CHECK(splits->train.class_names.at(99) == "class 99");
}

TEST_CASE("files of CIFAR that are not there are named") {
  const TemporaryFolder folder;
  CHECK(data::load_cifar(Cifar::k10, "/nowhere", {}).error().message() ==
        "data folder /nowhere is not there; set /data/path to the folder that holds the files of CIFAR-10's "
        "binary version, or /data/download to true");
  CHECK(refusal_in(Cifar::k10, folder) ==
        "CIFAR-10 file " + folder.file("data_batch_1.bin") +
            " is not there; set /data/path to the folder that holds the files of the binary version, or "
            "/data/download to true");
  write_bytes(folder.file("data_batch_2.bin"), "");
  CHECK(refusal_in(Cifar::k10, folder) == "CIFAR-10 file " + folder.file("data_batch_1.bin") +
                                              " is not there, but " + folder.file("data_batch_2.bin") +
                                              " is; fetch the set again");
  write_bytes(folder.file("data_batch_1.bin"), "\1" + planes(1));
  std::filesystem::remove(folder.file("data_batch_2.bin"));
  CHECK(refusal_in(Cifar::k10, folder) ==
        "CIFAR-10 file " + folder.file("test_batch.bin") +
            " is not there; set /data/path to the folder that holds the files of the binary version, or "
            "/data/download to true");
}

TEST_CASE("a file of CIFAR that is cut, empty or of another set is refused with its size") {
  const TemporaryFolder folder;
  for (const std::size_t size : {std::size_t{0}, std::size_t{3072}, std::size_t{3074}}) {
    write_bytes(folder.file("data_batch_1.bin"), std::string(size, '\0'));
    CHECK(
        refusal_in(Cifar::k10, folder) ==
        folder.file("data_batch_1.bin") + " is not a file of CIFAR-10: it has " + std::to_string(size) +
            " bytes, expected a multiple of 3073 (1 of labels and 3072 of pixels an image); fetch it again");
  }
}

TEST_CASE("a label beyond the classes of CIFAR is refused with its image") {
  const TemporaryFolder folder;
  write_bytes(folder.file("data_batch_1.bin"), "\1" + planes(1) + "\xa" + planes(1));
  CHECK(refusal_in(Cifar::k10, folder) ==
        folder.file("data_batch_1.bin") + " is damaged: the label of image 1 is 10, expected 0 to 9");
}

TEST_CASE("a list of names that does not fit the classes of CIFAR is refused") {
  const TemporaryFolder folder;
  write_ten(folder);
  write_bytes(folder.file("batches.meta.txt"), "airplane\n\nbird\n");
  CHECK(refusal_in(Cifar::k10, folder) ==
        folder.file("batches.meta.txt") +
            " has 2 names of classes, expected 10; remove it, or fetch it again");
}
