#include "tests/support/catch.h"
#include "worker/runtime/ddp/divergence/hash.h"
#include <ddprun/exception.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace ddprun::runtime {
namespace {

constexpr std::int64_t kChunkWords = (std::int64_t{1} << 16) * kRowWords;

TEST_CASE("the multipliers leave no change of one or two words of a row unseen") {
  std::set<std::int64_t> distinct;
  std::set<double> ratios;
  for (std::int64_t i = 0; i < kRowWords; ++i) {
    for (const int lane : {0, 1}) {
      REQUIRE(multiplier(lane, i) >= std::int64_t{1} << 30);
      REQUIRE(multiplier(lane, i) < std::int64_t{1} << 31);
      distinct.insert(multiplier(lane, i));
    }
    // Two words cancel each other in both sums only where these are the same for both.
    ratios.insert(static_cast<double>(multiplier(0, i)) / static_cast<double>(multiplier(1, i)));
  }
  CHECK(distinct.size() == 2 * kRowWords);
  CHECK(ratios.size() == kRowWords);
}

TEST_CASE("every flipped bit changes the hash") {
  const at::Tensor tensor = torch::randn({300});
  std::set<std::uint64_t> first;
  std::set<std::uint64_t> second;
  auto* const words = static_cast<std::uint32_t*>(tensor.data_ptr());
  for (int i = 0; i < 300; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      words[i] ^= std::uint32_t{1} << bit;
      const TensorHash hash = content_hash(tensor);
      first.insert(hash.first);
      second.insert(hash.second);
      words[i] ^= std::uint32_t{1} << bit;
    }
  }
  first.insert(content_hash(tensor).first);
  second.insert(content_hash(tensor).second);
  CHECK(first.size() == 300 * 32 + 1);
  CHECK(second.size() == 300 * 32 + 1);
}

TEST_CASE("elements that change places change the hash, within a row and between rows") {
  const at::Tensor tensor = torch::arange(1000, torch::kFloat);
  const TensorHash before = content_hash(tensor);
  for (const int other : {1, 2, 100, 255, 256, 512, 999}) {
    const at::Tensor swapped = tensor.clone();
    swapped[0] = tensor[other];
    swapped[other] = tensor[0];
    CHECK(content_hash(swapped) != before);
  }
  CHECK(content_hash(tensor.flip(0)) != before);
  CHECK(content_hash(tensor.roll(256)) != before);
}

TEST_CASE("bits are compared and not numbers") {
  const auto hash_of_float = [](std::uint32_t bits) {
    const at::Tensor tensor = torch::empty({1});
    std::memcpy(tensor.data_ptr(), &bits, sizeof(bits));
    return content_hash(tensor);
  };
  CHECK(hash_of_float(0x00000000) != hash_of_float(0x80000000));  // 0 and −0
  CHECK(hash_of_float(0x7fc00000) != hash_of_float(0x7fc00001));  // two NaNs
  CHECK(hash_of_float(0x7fc00000) == hash_of_float(0x7fc00000));
}

TEST_CASE("dtype and shape are part of the hash") {
  const TensorHash zeros = content_hash(torch::zeros({4}));
  CHECK(zeros == content_hash(torch::zeros({4})));
  CHECK(zeros != content_hash(torch::zeros({4}, torch::kInt)));
  CHECK(zeros != content_hash(torch::zeros({5})));
  CHECK(zeros != content_hash(torch::zeros({2, 2})));
  CHECK(zeros != content_hash(torch::zeros({4, 1})));
  CHECK(content_hash(torch::ones({2, 3})) != content_hash(torch::ones({3, 2})));
}

TEST_CASE("empty tensors and scalars have hashes of their own") {
  const TensorHash none = content_hash(torch::empty({0}));
  CHECK(none == content_hash(torch::empty({0})));
  CHECK(none != content_hash(torch::empty({0, 3})));
  CHECK(none != content_hash(torch::zeros({1})));
  CHECK(content_hash(torch::tensor(1.0F)) != content_hash(torch::tensor(2.0F)));
}

TEST_CASE("strides do not matter, what they reach does") {
  const at::Tensor images = torch::randn({2, 3, 5, 7});
  CHECK(content_hash(images.contiguous(at::MemoryFormat::ChannelsLast)) == content_hash(images));
  CHECK(content_hash(images.transpose(0, 1)) == content_hash(images.transpose(0, 1).contiguous()));
  CHECK(content_hash(images.slice(3, 1, 7, 2)) == content_hash(images.slice(3, 1, 7, 2).clone()));
  CHECK(content_hash(torch::ones({1}).expand({6})) == content_hash(torch::ones({6})));
  const at::Tensor complex = torch::randn({4}, torch::kComplexFloat);
  CHECK(content_hash(complex.conj()) == content_hash(complex.conj().resolve_conj()));
  CHECK(content_hash(complex.conj()) != content_hash(complex));
}

TEST_CASE("ATen's operations give the hash that the loop gives, for every dtype and size") {
  const auto same = [](const std::vector<at::Tensor>& tensors) {
    const std::vector<TensorHash> hashes = hash_by_aten(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      INFO(tensors[i].toString() << " " << tensors[i].sizes());
      CHECK(hashes[i] == hash_on_host(tensors[i]));
    }
  };
  std::vector<at::Tensor> tensors;
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
        at::kByte, at::kBool, at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn}) {
    for (const std::int64_t size : {0, 1, 2, 3, 5, 255, 256, 257, 1025})
      tensors.push_back(torch::randint(-100, 100, {size}).abs().to(type));
  }
  tensors.push_back(torch::tensor(3.0));
  const at::Tensor halves = torch::randn({9}).to(at::kHalf);
  tensors.push_back(halves.narrow(0, 1, 8));                          // does not begin at a whole word
  tensors.push_back(torch::zeros({1, 2}, at::kDouble).select(1, 1));  // of one element, and its stride is 2
  same(tensors);
  same({torch::randn({7}), torch::randn({kChunkWords - kRowWords}), torch::randn({kChunkWords + 3}),
        torch::randn({5})});
}

TEST_CASE("any number of threads gives the same hash") {
  const at::Tensor tensor = torch::randn({1 << 20});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const TensorHash one = content_hash(tensor);
  at::set_num_threads(3);
  CHECK(content_hash(tensor) == one);
  at::set_num_threads(before);
}

TEST_CASE("a tensor without strides is refused") {
  CHECK_THROWS_WITH(content_hash(torch::eye(3).to_sparse()),
                    "content_hash: expected a dense tensor, got a sparse one");
}

TEST_CASE("a combined hash depends on the order and on the text") {
  const TensorHash one{1, 2};
  const TensorHash two{3, 4};
  CHECK(combine(combine({}, one), two) != combine(combine({}, two), one));
  CHECK(combine(one, "weight") != combine(one, "bias"));
  CHECK(combine(one, "") != one);
}

}  // namespace
}  // namespace ddprun::runtime
