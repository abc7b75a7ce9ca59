// checkpoint_fuzz SECONDS [SEED]: feeds checkpoints and IDX files to the fuzz target: those of corpus/ and
// what save_pt writes as they are, then changed. Prints the seed; a crash is repeated with it. With
// ASAN_OPTIONS=max_allocation_size_mb=512, as ctest runs it, an allocation out of proportion is a failure.

#include "rendezvous/base/check.h"
#include "tests/fuzz/feed.h"
#include "worker/runtime/checkpoint/pickle.h"
#include <ddprun/pt_file.h>

#include <ATen/ATen.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun;
using namespace std::string_view_literals;

PtDict checkpoint() {
  PtDict model;
  model.ordered = true;
  model.set("weight", at::arange(6, at::kFloat).view({2, 3}));
  model.set("bias", at::ones({2}, at::kDouble));
  model.set("mix", at::ones({2}, at::kComplexFloat));
  PtDict dict;
  dict.set("model", model);
  dict.set("epoch", 7);
  dict.set("loss", 0.5);
  dict.set("names", PtList{{"a", "b", true, PtValue()}});
  dict.set("shape", PtTuple{{1, std::int64_t{1} << 40, -3}});
  return dict;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string archive_of(const PtDict& dict) {
  std::string path = "/tmp/checkpoint_fuzz-XXXXXX";
  const int file = ::mkstemp(path.data());
  ::close(file);
  save_pt(path, dict);
  std::string bytes = content_of(path);
  ::unlink(path.c_str());
  return bytes;
}

std::vector<std::string> seeds() {
  const PtDict dict = checkpoint();
  std::vector<std::string> found{runtime::pickle(dict).value().bytes, archive_of(dict)};
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_FUZZ_CORPUS))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());  // a seed stands for the same inputs in every run
  for (const auto& path : paths) found.push_back(content_of(path));
  DDPRUN_CHECK(found.size() > 100, "the corpus is there");
  return found;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), seeds_(seeds()) {}

  std::string next() {
    if (unchanged_ < seeds_.size()) return seeds_[unchanged_++];
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t left = 1 + below(6); left > 0 && !input.empty(); --left) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size());
    switch (below(8)) {
      case 0:
        input[at] = static_cast<char>(below(256));
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 2:
        input.erase(at, below(12));
        break;
      case 3:
        input.insert(at, input.substr(below(input.size()), below(40)));
        break;
      case 4:
        input[at] = kOpcodes[below(kOpcodes.size())];
        break;
      case 5: {
        const std::string_view field = kFields[below(std::size(kFields))];
        input.replace(at, field.size(), field);
        break;
      }
      case 6: {
        const std::string& other = seeds_[below(seeds_.size())];
        input.replace(at, std::string::npos, other, std::min(at, other.size()));
        break;
      }
      default:
        input.insert(at, kNumbers[below(std::size(kNumbers))]);
        break;
    }
  }

  static constexpr std::string_view kOpcodes = "(.012NJKMX]})tabeusQRchjqr\x85\x86\x87\x88\x89\x8a";
  static constexpr std::string_view kNumbers[] = {"J\xff\xff\xff\xff"sv,
                                                  "J\xff\xff\xff\x7f"sv,
                                                  "\x8a\x08\0\0\0\0\0\0\0\x80"sv,
                                                  "K\0"sv,
                                                  "\x8a\x06\0\0\0\0\0\x01"sv,
                                                  "X\xff\xff\xff\xff"sv,
                                                  "K\xff\x85"sv,
                                                  "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"sv};
  // What a zip archive's sizes and offsets are lied about with.
  static constexpr std::string_view kFields[] = {
      "\xff\xff"sv, "\xff\xff\xff\xff"sv, "\xff\xff\xff\xff\xff\xff\xff\xff"sv,
      "\0\0\0\0"sv, "PK\1\2"sv,           "PK\3\4"sv};
  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
  std::size_t unchanged_ = 0;  ///< seeds that were given as they are
};

}  // namespace

int main(int argc, char** argv) { return ddprun::fuzz::feed<Generator>(argc, argv); }
