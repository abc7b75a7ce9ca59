#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/data/download_lock.h"
#include "worker/data/text_tokens.h"
#include "worker/data/token_source.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string_view>

using namespace ddprun;
using ddprun::testing::TemporaryFolder;

namespace {

data::Tokens counting(std::size_t count) {
  const auto values = std::make_shared<std::vector<std::uint16_t>>(count);
  std::iota(values->begin(), values->end(), std::uint16_t{0});
  return {*values, values, "train.bin"};
}

void write_tokens(const std::string& path, const std::vector<std::uint16_t>& tokens) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 2));
}

Batch batch_of(const DataSource& source, std::vector<std::int64_t> indices, std::int64_t epoch = 0) {
  return source.make_batch({.indices = indices, .seed = 1, .epoch = epoch});
}

}  // namespace

TEST_CASE("windows of tokens follow one another, and their targets are one further") {
  const data::TokenSource source(counting(13), {.block = 4, .vocabulary = 100});
  CHECK(source.size() == 3);
  const Batch batch = batch_of(source, {0, 2});
  CHECK(torch::equal(batch.tensors[0], torch::tensor({{0, 1, 2, 3}, {8, 9, 10, 11}})));
  CHECK(torch::equal(batch.tensors[1], torch::tensor({{1, 2, 3, 4}, {9, 10, 11, 12}})));
  CHECK(data::TokenSource(counting(12), {.block = 4, .vocabulary = 100}).size() == 2);
}

TEST_CASE("shifted windows of an epoch do not overlap, stay within the tokens, and reach every place") {
  const data::TokenSource source(counting(20),
                                 {.block = 4, .vocabulary = 20, .start = data::WindowStart::kShifted});
  std::set<std::int64_t> starts;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const at::Tensor tokens = batch_of(source, {0, source.size() - 1}, epoch).tensors[0];
    starts.insert(tokens[0][0].item<std::int64_t>());
    CHECK(tokens[1][0].item<std::int64_t>() - tokens[0][0].item<std::int64_t>() == 4 * (source.size() - 1));
  }
  CHECK(starts == std::set<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("a text becomes the places of its characters in the sorted list of them") {
  const auto text = data::tokenize_characters("b\u00e4a b", "x.txt");
  REQUIRE(text.has_value());
  CHECK(text->characters == std::vector<std::string>{" ", "a", "b", "\u00e4"});
  CHECK(std::vector<std::uint16_t>(text->tokens.values.begin(), text->tokens.values.end()) ==
        std::vector<std::uint16_t>{2, 3, 1, 0, 2});
  CHECK(data::tokenize_characters("ab\xff", "x.txt").error().message() ==
        "x.txt is no UTF-8 text: byte 2 begins no character");
  CHECK_FALSE(data::tokenize_characters("\xe0\x80\x80", "overlong").has_value());
  CHECK_FALSE(data::tokenize_characters("\xed\xa0\x80", "surrogate").has_value());
}

// open() without newline= reads texts so, and nanoGPT's prepare.py reads by it.
TEST_CASE("a line of a text ends in one token, however it ends in the file, as Python reads it") {
  const auto text = data::tokenize_characters("a\r\nb\rc\n\r\n\n\r", "x.txt");
  REQUIRE(text.has_value());
  CHECK(text->characters == std::vector<std::string>{"\n", "a", "b", "c"});
  CHECK(std::vector<std::uint16_t>(text->tokens.values.begin(), text->tokens.values.end()) ==
        std::vector<std::uint16_t>{1, 0, 2, 0, 3, 0, 0, 0, 0});
}

TEST_CASE("tokens that an older ddprun has kept are made anew where they have other ends of lines") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  std::ofstream(path) << "a\r\nb";
  data::keep_text_tokens(path, {});
  // As version 1 kept them.
  const auto keep_old = [&](const std::vector<std::string>& characters, std::vector<std::uint16_t> tokens) {
    std::string header;
    std::ifstream kept(data::kept_tokens_path(path));
    std::getline(kept, header);
    auto json = nlohmann::ordered_json::parse(header);
    json["ddprun_tokens"] = 1;
    json["characters"] = characters;
    json["tokens"] = tokens.size();
    header = json.dump();
    header += header.size() % 2 == 0 ? " \n" : "\n";
    std::ofstream(data::kept_tokens_path(path))
        << header
        << std::string_view(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]);
  };
  keep_old({"\n", "\r", "a", "b"}, {2, 1, 0, 3});
  CHECK(data::load_text(path)->tokens.values.size() == 3);
  keep_old({"\n", "a", "b"}, {1, 0, 2, 2});
  CHECK(data::load_text(path)->tokens.values.size() == 4);
}

namespace {

std::vector<std::uint16_t> values_of(const Result<data::TextTokens>& text) {
  return {text->tokens.values.begin(), text->tokens.values.end()};
}

bool is_mapped(const data::TextTokens& text, const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(text.tokens.values.data());
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && begin <= address && address < end)
      return line.ends_with(path);
  }
  return false;
}

}  // namespace

TEST_CASE("the tokens of a text are written beside it once, and mapped from then on") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  std::ofstream(path) << "to be, \u00fc or \"not\"\n";
  const Result<data::TextTokens> made = data::load_text(path);
  REQUIRE(made.has_value());
  CHECK_FALSE(is_mapped(*made, data::kept_tokens_path(path)));
  data::keep_text_tokens(path, {});
  const Result<data::TextTokens> kept = data::load_text(path);
  CHECK(is_mapped(*kept, data::kept_tokens_path(path)));
  CHECK(values_of(kept) == values_of(made));
  CHECK(kept->characters == made->characters);
  const auto written = std::filesystem::last_write_time(data::kept_tokens_path(path));
  data::keep_text_tokens(path, {});
  CHECK(std::filesystem::last_write_time(data::kept_tokens_path(path)) == written);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("kept tokens of another text are made anew, another program's file is left alone") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  const std::string kept = data::kept_tokens_path(path);
  std::ofstream(path) << "abc";
  data::keep_text_tokens(path, {});
  std::ofstream(path) << "cab, and more";
  CHECK(data::load_text(path)->tokens.values.size() == 13);
  data::keep_text_tokens(path, {});
  CHECK(is_mapped(*data::load_text(path), kept));
  for (const std::string& other :
       {std::string("{}\n"), std::string("\n"), std::string(),
        std::string("{\"ddprun_tokens\":1,\"text_bytes\":[]}\n"), std::string(100, 'x')}) {
    std::ofstream(kept) << other;
    CHECK(data::load_text(path)->tokens.values.size() == 13);
  }
  data::keep_text_tokens(path, {});
  CHECK(std::filesystem::file_size(kept) == 100);
  std::filesystem::remove(kept);
  data::keep_text_tokens(path, {});
  CHECK(is_mapped(*data::load_text(path), kept));
  std::filesystem::resize_file(kept, std::filesystem::file_size(kept) - 2);
  CHECK(data::load_text(path)->tokens.values.size() == 13);
}

TEST_CASE("kept tokens that are damaged are blamed, and not the text") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  const std::string kept = data::kept_tokens_path(path);
  std::ofstream(path) << "abcabcabc";
  data::keep_text_tokens(path, {});
  std::fstream(kept, std::ios::in | std::ios::out | std::ios::ate)
      .seekp(-2, std::ios::end)
      .write("\xff\xff", 2);
  const data::TokenSource source(data::load_text(path)->tokens, {.block = 8, .vocabulary = 3});
  CHECK_THROWS_WITH(batch_of(source, {0}, 0),
                    fmt::format("{}: token 8 is 65535, and the vocabulary ends at 2; remove {}, which is "
                                "then made anew",
                                path, kept));
}

TEST_CASE("what a killed writer of kept tokens has left is removed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  std::ofstream(path) << "abc";
  const std::string left = folder.file(".x.txt.tokens.ddprun-0123abcd.tmp");
  const std::string of_another = folder.file(".y.txt.tokens.ddprun-0123abcd.tmp");
  std::ofstream(left) << "half";
  std::ofstream(of_another) << "of another text";
  data::keep_text_tokens(path, {});
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(of_another));
}

TEST_CASE("the right to download into a text's folder is not waited for") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  std::ofstream(path) << "abc";
  const auto lock = data::DownloadLock::take(folder.path(), {}, [](const auto&) {});
  REQUIRE(lock.has_value());
  data::keep_text_tokens(path, {});
  CHECK(is_mapped(*data::load_text(path), data::kept_tokens_path(path)));
}

TEST_CASE("tokens that cannot be kept are no trouble") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  data::keep_text_tokens(path, {});  // no text
  std::ofstream(path) << "abc";
  std::filesystem::create_directories(data::kept_tokens_path(path) + "/in/the/way");
  data::keep_text_tokens(path, {});
  CHECK(data::load_text(path)->tokens.values.size() == 3);
}

TEST_CASE("token files are mapped, with the vocabulary of meta.json") {
  const TemporaryFolder folder;
  write_tokens(folder.file("train.bin"), {1, 2, 3, 4, 5, 6});
  write_tokens(folder.file("val.bin"), {3, 2, 1});
  const std::string job = R"({"path": ")" + folder.path() +
                          R"(", "block": 2, "train_samples": 0, "test_samples": 0, "vocabulary": )";
  CHECK_THROWS_WITH(data::open_token_files(Options(job + "0}", "/data")),
                    "/data/vocabulary: the size of the vocabulary is not known, because " +
                        folder.file("meta.json") + " is not there; set it (50257 for GPT-2's tokens)");
  std::ofstream(folder.file("meta.json")) << R"({"vocab_size": 7})";
  const DataSplits splits = data::open_token_files(Options(job + "0}", "/data"));
  CHECK(splits.train->size() == 2);
  CHECK(splits.train->shape().classes == 7);
  CHECK(torch::equal(batch_of(*splits.held_out, {0}).tensors[1], torch::tensor({{2, 1}})));
}

TEST_CASE("a token beyond the vocabulary is refused with its place") {
  const data::TokenSource source(counting(20), {.block = 4, .vocabulary = 10});
  CHECK_THROWS_WITH(batch_of(source, {0, 2}),
                    "train.bin: token 10 is 10, and the vocabulary ends at 9; set /data/vocabulary");
}

TEST_CASE("a file of tokens that is made shorter while it is trained on is said to be, not a signal") {
  const TemporaryFolder folder;
  const std::string path = folder.file("train.bin");
  write_tokens(path, std::vector<std::uint16_t>(100'000, 1));
  data::Tokens tokens = data::map_tokens(path).value();
  const data::TokenSource source(std::move(tokens), {.block = 4, .vocabulary = 10});
  batch_of(source, {0});
  std::filesystem::resize_file(path, 20);
  CHECK_THROWS_WITH(
      batch_of(source, {20'000}),
      path +
          " was made shorter while it is in use, from 200000 to 20 bytes; put new data beside it, "
          "or in its place by a rename");
}

TEST_CASE("token files that are too short or no tokens are refused") {
  CHECK_THROWS_WITH(
      data::TokenSource(counting(4), {.block = 4, .vocabulary = 10}),
      "train.bin has 4 tokens, a window of 4 needs at least 5; choose a smaller block, or more text");
  const TemporaryFolder folder;
  std::ofstream(folder.file("train.bin")) << "abc";
  CHECK(data::map_tokens(folder.file("train.bin")).error().message() ==
        folder.file("train.bin") + " is no file of 16-bit tokens: it has 3 bytes, an odd number");
}

TEST_CASE("the text of Shakespeare has nanoGPT's 65 characters and its cut") {
  const std::string path = DDPRUN_SOURCE_DIR "/../shared/data/tinyshakespeare/input.txt";
  if (!std::ifstream(path)) return ddprun::testing::skipped("the text of Shakespeare is not at " + path);
  const DataSplits splits = data::open_text_file(
      Options(R"({"path": ")" + path +
                  R"(", "held_out_share": 0.1, "block": 1, "train_samples": 0, "test_samples": 0})",
              "/data"));
  CHECK(splits.train->shape().classes == 65);
  CHECK(splits.train->size() == 1003854 - 1);
  CHECK(splits.held_out->size() == 111540 - 1);
}
