#include "worker/data/registry.h"

#include "worker/data/cifar.h"
#include "worker/data/image_folder.h"
#include "worker/data/image_source.h"
#include "worker/data/mnist.h"
#include "worker/data/synthetic.h"
#include "worker/data/table.h"
#include "worker/data/token_source.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>

#include <utility>

namespace ddprun::data {

// Of the file that has the source's name.
void register_spirals(DataRegistry& sources);

namespace {

constexpr std::int64_t kSyntheticTrainSamples = 4096;
constexpr std::int64_t kSyntheticTestSamples = 1024;

SampleLimits limits_of(const Options& options) {
  return {options.integer("train_samples"), options.integer("test_samples")};
}

DataSplits mnist(const Options& options, std::uint64_t /*seed*/) {
  return to_sources(
      runtime::value_or_throw(load_mnist(Mnist::kDigits, options.text("path"), limits_of(options))), options);
}

DataSplits fashion_mnist(const Options& options, std::uint64_t /*seed*/) {
  ImageSplits splits =
      runtime::value_or_throw(load_mnist(Mnist::kFashion, options.text("path"), limits_of(options)));
  for (Images* images : {&splits.train, &splits.held_out}) {
    images->mean = {0.2860F};
    images->deviation = {0.3530F};
    images->class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                           "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  }
  return to_sources(std::move(splits), options);
}

DataFactory cifar(Cifar which) {
  return [which](const Options& options, std::uint64_t /*seed*/) {
    return to_sources(runtime::value_or_throw(load_cifar(which, options.text("path"), limits_of(options))),
                      options);
  };
}

DataSplits synthetic(const Options& options, std::uint64_t seed) {
  const auto [train, test] = limits_of(options);
  return to_sources(make_synthetic({.train_samples = train > 0 ? train : kSyntheticTrainSamples,
                                    .held_out_samples = test > 0 ? test : kSyntheticTestSamples,
                                    .seed = seed}),
                    options);
}

}  // namespace

void register_data_sources(DataRegistry& sources) {
  sources.add("cifar10", "CIFAR-10 in its binary version or in Python's", cifar(Cifar::k10));
  sources.add("cifar100", "CIFAR-100 in its binary version or in Python's, with the fine labels",
              cifar(Cifar::k100));
  sources.add("csv", "train.csv and test.csv, a line for each sample",
              [](const Options& options, std::uint64_t /*seed*/) { return open_csv(options); });
  sources.add("fashion_mnist", "Fashion-MNIST: the four files of MNIST's IDX layout, plain or .gz",
              fashion_mnist);
  sources.add("image_folder", "JPEG and PNG files, a folder for each class",
              [](const Options& options, std::uint64_t /*seed*/) { return open_image_folder(options); });
  sources.add("mnist", "the four files of MNIST's IDX layout, plain or .gz", mnist);
  sources.add("npy", "arrays of numpy.save: train_x.npy, train_y.npy, test_x.npy and test_y.npy",
              [](const Options& options, std::uint64_t /*seed*/) { return open_npy(options); });
  register_spirals(sources);
  sources.add("synthetic", "random images made from the seed, for benchmarks and tests", synthetic);
  sources.add("text", "the characters of a text file",
              [](const Options& options, std::uint64_t /*seed*/) { return open_text_file(options); });
  sources.add("tokens", "train.bin and val.bin of 16-bit tokens, as nanoGPT writes them",
              [](const Options& options, std::uint64_t /*seed*/) { return open_token_files(options); });
}

}  // namespace ddprun::data
