#include "worker/data/cifar.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

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

/// What Python 2's cPickle writes with protocol 2, as in the files that CIFAR's authors offer.
namespace pickled {

std::string text(const std::string& value) {
  return "U" + std::string(1, static_cast<char>(value.size())) + value;
}

std::string four_bytes(std::size_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string list(const std::vector<std::string>& items) {
  std::string bytes = "](";
  for (const std::string& item : items) bytes += item;
  return bytes + "e";
}

std::string labels(const std::string& values) {
  std::vector<std::string> items;
  for (const char value : values) items.push_back(std::string("K") + value);
  return list(items);
}

std::string array(std::size_t rows, const std::string& bytes, const std::string& type = "u1") {
  using namespace std::string_literals;
  return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1J"s + four_bytes(rows) +
         "M\0\x0c\x86"s + "cnumpy\ndtype\n" + text(type) +
         "K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"s + four_bytes(bytes.size()) +
         bytes + "tb";
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string bytes = "\x80\2}q\1(";
  for (const auto& [key, value] : entries) bytes += text(key) + value;
  return bytes + "u.";
}

}  // namespace pickled

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

TEST_CASE("CIFAR-10 is read as Python's programs have it") {
  const TemporaryFolder folder;
  write_bytes(folder.file("data_batch_1"),
              pickled::dict({{"batch_label", pickled::text("batch 1")},
                             {"labels", pickled::labels("\3\4")},
                             {"data", pickled::array(2, planes(10) + planes(20))},
                             {"filenames", pickled::list({pickled::text("a.png")})}}));
  write_bytes(folder.file("test_batch"),
              pickled::dict({{"data", pickled::array(1, planes(40))}, {"labels", pickled::labels("\6")}}));
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back(pickled::text("class " + std::to_string(i)));
  write_bytes(folder.file("batches.meta"), pickled::dict({{"label_names", pickled::list(names)}}));
  const auto splits = data::load_cifar(Cifar::k10, folder.path(), {});
  REQUIRE(splits.has_value());
  CHECK(splits->train.labels == std::vector<std::uint8_t>{3, 4});
  CHECK(splits->train.pixels[3072 + 1024] == 21);
  CHECK(splits->held_out.labels == std::vector<std::uint8_t>{6});
  CHECK(splits->train.class_names.at(9) == "class 9");
}

TEST_CASE("CIFAR-100 is read as Python's programs have it, with the fine labels") {
  const TemporaryFolder folder;
  for (const char* name : {"train", "test"}) {
    write_bytes(folder.file(name), pickled::dict({{"fine_labels", pickled::labels("\x63")},
                                                  {"coarse_labels", pickled::labels("\7")},
                                                  {"data", pickled::array(1, planes(1))}}));
  }
  const auto splits = data::load_cifar(Cifar::k100, folder.path(), {});
  REQUIRE(splits.has_value());
  CHECK(splits->train.labels == std::vector<std::uint8_t>{99});
}

TEST_CASE("a pickled file of CIFAR that is another thing is refused, and nothing in it is done") {
  const TemporaryFolder folder;
  const std::string path = folder.file("data_batch_1");
  const auto refusal = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return refusal_in(Cifar::k10, folder);
  };
  const std::string one = pickled::labels("\1");
  CHECK(refusal("cos\nsystem\nU\4true\x85R.") == path +
                                                     ": it holds an object of Python's os.system, which is "
                                                     "more than weights; save a state_dict() instead; "
                                                     "fetch the set again");
  CHECK(refusal(pickled::dict({{"labels", one}})) ==
        path + ": there is no \"data\" in it; fetch the set again");
  CHECK(refusal(pickled::dict({{"labels", one}, {"data", pickled::array(1, planes(1), "f4")}})) ==
        path +
            ": it holds an array of numpy's type f4, and only bytes in C's order are supported; fetch the "
            "set again");
  CHECK(refusal(pickled::dict({{"labels", one}, {"data", pickled::array(2, planes(1))}})) ==
        path + " has 3072 bytes for an array of size [2, 3072]; fetch the set again");
  CHECK(
      refusal(pickled::dict({{"labels", pickled::labels("\1\2")}, {"data", pickled::array(1, planes(1))}})) ==
      path +
          " is not a file of CIFAR-10: it has 2 labels and 3072 bytes of pixels, expected 3072 an image; "
          "fetch the set "
          "again");
  CHECK(
      refusal(pickled::dict({{"labels", pickled::labels("\x0a")}, {"data", pickled::array(1, planes(1))}})) ==
      path + " is damaged: the label of image 0 is 10, expected 0 to 9");
  const std::string whole = pickled::dict({{"labels", one}, {"data", pickled::array(1, planes(1))}});
  CHECK_THAT(refusal(whole.substr(0, 1000)),
             Catch::Matchers::StartsWith(path + " ends early, after 1000 bytes"));
}

TEST_CASE("files of CIFAR that are not there are named") {
  const TemporaryFolder folder;
  CHECK(data::load_cifar(Cifar::k10, "/nowhere", {}).error().message() ==
        "data folder /nowhere is not there; set /data/path to the folder that holds the files of CIFAR-10's "
        "binary version or of Python's, or /data/download to true");
  CHECK(refusal_in(Cifar::k10, folder) ==
        "CIFAR-10 file " + folder.file("data_batch_1.bin") +
            " is not there; set /data/path to the folder that holds the files of the binary version or of "
            "Python's, or /data/download to true");
  write_bytes(folder.file("data_batch_2.bin"), "");
  CHECK(refusal_in(Cifar::k10, folder) == "CIFAR-10 file " + folder.file("data_batch_1.bin") +
                                              " is not there, but " + folder.file("data_batch_2.bin") +
                                              " is; fetch the set again");
  write_bytes(folder.file("data_batch_1.bin"), "\1" + planes(1));
  std::filesystem::remove(folder.file("data_batch_2.bin"));
  CHECK(refusal_in(Cifar::k10, folder) ==
        "CIFAR-10 file " + folder.file("test_batch.bin") +
            " is not there; set /data/path to the folder that holds the files of the binary version or of "
            "Python's, or /data/download to true");
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
