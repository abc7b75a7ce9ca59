#include "worker/data/image_folder.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/transforms/registry.h"
#include <ddprun/exception.h>

#include <png.h>
#include <torch/types.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <new>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

/// A PNG file of 2 × 2 pixels of one grey.
void write_image(const std::string& path, std::uint8_t grey) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = 2;
  image.height = 2;
  image.format = PNG_FORMAT_GRAY;
  const std::array<std::uint8_t, 4> pixels{grey, grey, grey, grey};
  REQUIRE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) != 0);
}

void write_text(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "no image";
}

DataSplits open(const TemporaryFolder& folder, const std::string& damaged = "stop") {
  const std::string list =
      R"([{"type": "center_crop", "size": 2}, {"type": "normalize", "mean": [0], "std": [1]}])";
  return data::open_image_folder(Options(R"({"path": ")" + folder.path() +
                                             R"(", "held_out_share": 0.25, "damaged": ")" + damaged +
                                             R"(", "train_samples": 0, "test_samples": 0, "transforms": )" +
                                             list + R"(, "test_transforms": )" + list + "}",
                                         "/data"));
}

std::vector<std::int64_t> all_of(const DataSource& source) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(source.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
  return indices;
}

Batch whole(const DataSource& source) {
  const auto indices = all_of(source);
  return source.make_batch({.indices = indices});
}

/// The grey level of each image of a batch.
std::vector<std::int64_t> greys(const Batch& batch) {
  std::vector<std::int64_t> levels;
  for (std::int64_t i = 0; i < batch.samples; ++i)
    levels.push_back(std::lround(batch.tensors[0][i][0][0][0].item<double>() * 255));
  return levels;
}

void write_two_splits(const TemporaryFolder& folder) {
  write_image(folder.file("train/cat/b.png"), 2);
  write_image(folder.file("train/cat/a.PNG"), 1);
  write_image(folder.file("train/Dog/c.png"), 0);
  write_image(folder.file("train/cat/deep/d.png"), 3);
  write_image(folder.file("val/cat/x.png"), 4);
  write_image(folder.file("val/Dog/y.png"), 5);
}

}  // namespace

TEST_CASE("classes and files come in Python's order: by code point, folder by folder") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  write_text(folder.file("train/cat/notes.txt"));
  const DataSplits splits = open(folder);
  CHECK(splits.train->shape().class_names == std::vector<std::string>{"Dog", "cat"});
  CHECK(greys(whole(*splits.train)) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(torch::equal(whole(*splits.train).tensors[1], torch::tensor({0, 1, 1, 1})));
  CHECK(greys(whole(*splits.held_out)) == std::vector<std::int64_t>{5, 4});
}

TEST_CASE("a folder without train is parted, each class by itself, always in the same way") {
  const TemporaryFolder folder;
  for (std::uint8_t i = 0; i < 8; ++i) {
    write_image(folder.file("a/" + std::to_string(i) + ".png"), i);
    write_image(folder.file("b/" + std::to_string(i) + ".png"), static_cast<std::uint8_t>(100 + i));
  }
  const DataSplits splits = open(folder);
  CHECK(splits.train->size() == 12);
  CHECK(torch::equal(whole(*splits.held_out).tensors[1], torch::tensor({0, 0, 1, 1})));
  CHECK(greys(whole(*open(folder).held_out)) == greys(whole(*splits.held_out)));
  std::vector<std::int64_t> all = greys(whole(*splits.train));
  for (const std::int64_t level : greys(whole(*splits.held_out)))
    CHECK(std::count(all.begin(), all.end(), level) == 0);
}

TEST_CASE("a damaged image stops the job, with its name") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  write_text(folder.file("train/cat/bad.jpg"));
  CHECK_THROWS_WITH(
      whole(*open(folder).train),
      folder.file("train/cat/bad.jpg") + " is no whole JPEG image: Not a JPEG file: starts with 0x6e 0x6f");
}

TEST_CASE("a damaged image is skipped where that is wanted: the next one takes its place") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  write_text(folder.file("train/cat/bad.jpg"));
  const DataSplits splits = open(folder, "skip");
  CHECK(greys(whole(*splits.train)) == std::vector<std::int64_t>{0, 1, 2, 3, 3});
  CHECK(dynamic_cast<const data::LeavesOutDamaged&>(*splits.train).left_out() == 1);
}

TEST_CASE("an image that is gone, or a folder by now, is none that is damaged") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  const DataSplits splits = open(folder, "skip");
  std::filesystem::remove(folder.file("train/cat/b.png"));
  CHECK_THROWS_WITH(whole(*splits.train), Catch::Matchers::Contains("train/cat/b.png"));
  std::filesystem::create_directory(folder.file("train/cat/b.png"));
  CHECK_THROWS_WITH(whole(*splits.train), Catch::Matchers::Contains("train/cat/b.png"));
  CHECK(dynamic_cast<const data::LeavesOutDamaged&>(*splits.train).left_out() == 0);
}

TEST_CASE("an image that a transform refuses is named") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  const DataSplits splits = data::open_image_folder(Options(
      R"({"path": ")" + folder.path() +
          R"(", "held_out_share": 0.25, "damaged": "skip", "train_samples": 0, "test_samples": 0, "transforms": )"
          R"([{"type": "random_crop", "size": 4}], "test_transforms": [{"type": "center_crop", "size": 4}]})",
      "/data"));
  CHECK_THROWS_WITH(
      whole(*splits.train),
      folder.file("train/Dog/c.png") +
          ": /data/transforms/0: a crop of 4 × 4 does not fit into an image of 2 × 2 with a padding of "
          "0; crop less, pad more, or resize before");
}

TEST_CASE("an image for which there is no memory is named with its size") {
  struct Greedy : transforms::Transform {
    transforms::Image apply(const transforms::Image&, transforms::Random&) const override {
      throw std::bad_alloc();
    }
  };
  const TemporaryFolder folder;
  write_image(folder.file("a.png"), 1);
  transforms::TransformRegistry registry("transform");
  registry.add("greedy", "wants all memory", [](const Options&) { return std::make_unique<Greedy>(); });
  const Options list(R"({"transforms": [{"type": "greedy"}]})", "/data");
  transforms::Chain chain(list.objects("transforms"), "/data/transforms", registry,
                          {.channels = 3, .size = transforms::Size{2, 2}, .normalization = {}});
  const data::ImageFolderSource source({{"a"}, {{folder.file("a.png"), 0}}}, std::move(chain),
                                       data::OnDamage::kSkip);
  CHECK_THROWS_WITH(whole(source),
                    "no memory for image " + folder.file("a.png") +
                        " of 2 × 2 pixels; lower /data/loader_threads, or make the image smaller");
}

TEST_CASE("a class without images, and images that only Python reads, are refused") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  write_text(folder.file("train/bird/readme"));
  CHECK_THROWS_WITH(open(folder),
                    "class bird has no image: " + folder.file("train/bird") +
                        " holds no .jpg, .jpeg or .png; remove the folder, or put images there");
  write_text(folder.file("train/bird/x.webp"));
  CHECK_THROWS_WITH(open(folder), folder.file("train/bird/x.webp") +
                                      " is an image that cannot be read here: only .jpg, .jpeg and .png are; "
                                      "convert it, or move it away");
}

TEST_CASE("links of an image folder that lead nowhere are named, and those in a circle") {
  const TemporaryFolder folder;
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"a", "b"})
      write_image(folder.file(std::string(split) + "/" + name + "/1.png"), 7);
  }
  const std::string link = folder.file("train/a/self.png");
  std::filesystem::create_symlink("self.png", link);
  CHECK_THROWS_WITH(whole(*open(folder).train), Catch::Matchers::Contains(link));
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink("..", folder.file("train/a/up"));
  CHECK_THROWS_WITH(open(folder),
                    Catch::Matchers::Contains("it is a link to a folder that it is in; remove it") &&
                        Catch::Matchers::Contains("train/a/up]"));
  std::filesystem::remove(folder.file("train/a/up"));
  for (const char* name : {"train/a/x", "train/a/y"})
    std::filesystem::create_directory_symlink("../b", folder.file(name));
  CHECK(open(folder).train->size() == 4);
  std::filesystem::create_directory_symlink("../a", folder.file("train/b/back"));
  CHECK_THROWS_WITH(open(folder),
                    Catch::Matchers::Contains("it is a link to a folder that it is in; remove it"));
}

TEST_CASE("of a circle through another place, a link is named and no folder") {
  const TemporaryFolder folder;
  for (const char* name : {"train/a", "train/b", "test/a", "test/b"})
    write_image(folder.file(std::string(name) + "/1.png"), 7);
  const TemporaryFolder other;
  std::filesystem::create_directory_symlink(other.path(), folder.file("train/a/more"));
  std::filesystem::create_directory_symlink(folder.path(), other.file("back"));
  CHECK_THROWS_WITH(open(folder), Catch::Matchers::EndsWith("more/back/train/a/more]"));
}

TEST_CASE("folders that do not belong together are refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(open(folder),
                    "data folder " + folder.path() + " has no folder in it; expected one for each class");
  write_image(folder.file("train/cat/a.png"), 1);
  CHECK_THROWS_WITH(open(folder), "data folder " + folder.path() +
                                      " has a folder train, but neither val nor test beside it");
  write_image(folder.file("test/dog/a.png"), 1);
  CHECK_THROWS_WITH(open(folder),
                    folder.file("train") + " and " + folder.file("test") +
                        " have different classes: 2 of 1 and 1 are in one of them only, the first "
                        "is cat");
}

TEST_CASE("limits take images from the whole listing") {
  data::ImageListing listing{{"a", "b"}, {{"1", 0}, {"2", 0}, {"3", 1}, {"4", 1}}};
  const data::ImageListing two = data::limited(listing, 2);
  REQUIRE(two.files.size() == 2);
  CHECK(two.files[1].path == "3");
  CHECK(data::limited(listing, 9).files.size() == 4);
}

TEST_CASE("files can be taken as bytes, of which the same numbers are made") {
  const TemporaryFolder folder;
  write_two_splits(folder);
  const DataSplits splits = open(folder);
  const auto& source = dynamic_cast<const data::ByteImages&>(*splits.train);
  const auto indices = all_of(*splits.train);
  const Batch bytes = source.make_byte_batch({.indices = indices});
  CHECK(bytes.tensors[0].scalar_type() == at::kByte);
  const Batch numbers = whole(*splits.train);
  CHECK(torch::equal(source.end_of_bytes()->on(at::kCPU)(bytes.tensors[0]), numbers.tensors[0]));
  CHECK(torch::equal(bytes.tensors[1], numbers.tensors[1]));
}
