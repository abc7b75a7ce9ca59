#include "worker/data/registry.h"

#include "worker/data/image_source.h"
#include "worker/data/mnist.h"
#include "worker/data/synthetic.h"
#include <ddprun/exception.h>

#include <utility>

namespace ddprun::data {
namespace {

constexpr std::int64_t kSyntheticTrainSamples = 4096;
constexpr std::int64_t kSyntheticTestSamples = 1024;

DataSplits mnist(const Options& options, std::uint64_t /*seed*/) {
  Result<ImageSplits> splits =
      load_mnist(options.text("path"), {options.integer("train_samples"), options.integer("test_samples")});
  if (!splits) throw Exception(splits.error().code(), splits.error().message());
  return to_sources(std::move(*splits));
}

DataSplits synthetic(const Options& options, std::uint64_t seed) {
  const std::int64_t train = options.integer("train_samples");
  const std::int64_t test = options.integer("test_samples");
  return to_sources(make_synthetic({.train_samples = train > 0 ? train : kSyntheticTrainSamples,
                                    .held_out_samples = test > 0 ? test : kSyntheticTestSamples,
                                    .seed = seed}));
}

}  // namespace

void register_data_sources(DataRegistry& sources) {
  sources.add("mnist", "the four files of MNIST's IDX layout, plain or .gz", mnist);
  sources.add("synthetic", "random images made from the seed, for benchmarks and tests", synthetic);
}

}  // namespace ddprun::data
