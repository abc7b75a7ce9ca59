// checkpoint_fuzz SECONDS [SEED]: feeds mutated checkpoints and IDX files to the fuzz target. Prints the
// seed; a crash is repeated with it.

#include "tests/fuzz/feed.h"
#include "worker/runtime/checkpoint/pickle.h"
#include <ddprun/pt_file.h>

#include <ATen/ATen.h>
#include <stdlib.h>
#include <unistd.h>

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

std::string archive_of(const PtDict& dict) {
  std::string path = "/tmp/checkpoint_fuzz-XXXXXX";
  const int file = ::mkstemp(path.data());
  ::close(file);
  save_pt(path, dict);
  std::ifstream stream(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  ::unlink(path.c_str());
  return bytes;
}

// What Python writes and our own pickler does not: references, marks, views.
constexpr std::string_view kPython =
    "\x80\x02}q\x00(X\x01\0\0\0aq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\0\0\0storageq\x03"
    "ctorch\nFloatStorage\nq\x04X\x01\0\0\0"
    "0q\x05X\x03\0\0\0cpuq\x06K\x04tq\x07QK\x01K\x01K\x02\x86q\x08K\x02K\x01\x86q\x09\x89"
    "ccollections\nOrderedDict\n)R}X\x03\0\0\0neg\x88stq\x0aRh\x01h\x03]q\x0b(h\x01h\x06h\x0a"
    "eu."sv;

std::vector<std::string> seeds() {
  const PtDict dict = checkpoint();
  return {"\2" + runtime::pickle(dict).value().bytes, "\2" + std::string(kPython),
          "\2" + std::string(kPython), "\1" + archive_of(dict),
          std::string("\0\0\0\x08\x03\0\0\0\1\0\0\0\2\0\0\0\3abcdef"sv)};
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), seeds_(seeds()) {}

  std::string next() {
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t left = 1 + below(6); left > 0 && input.size() > 1; --left) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void mutate(std::string& input) {
    const std::size_t at = 1 + below(input.size() - 1);
    switch (below(6)) {
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
        input.insert(at, input.substr(1 + below(input.size() - 1), below(40)));
        break;
      case 4:
        input[at] = kOpcodes[below(kOpcodes.size())];
        break;
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
  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
};

}  // namespace

int main(int argc, char** argv) { return ddprun::fuzz::feed<Generator>(argc, argv); }
