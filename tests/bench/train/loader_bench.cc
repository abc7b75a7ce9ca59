// The trainer's loader alone, with one thread. Each line "JSON BATCHES" of the file COMMANDS, JSON being the /data of a
// merged job file without spaces, is answered with images per second.

#include "worker/data/loader.h"
#include "worker/data/registry.h"
#include "worker/runtime/process/memory/freed_memory.h"
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/registry.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ddprun::bench {
namespace {

constexpr std::int64_t kBatch = 64;
constexpr int kPrefetched = 4;

DataSplits open(const std::string& json) {
  DataRegistry sources("data source");
  data::register_data_sources(sources);
  const Options options(json, "/data");
  return sources.at(options.text("type")).make(options, 0);
}

/// What is made ahead when the first batch comes is not counted.
double images_per_second(const DataSource& source, std::int64_t batches) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < (batches + kPrefetched) * kBatch; ++i) indices.push_back(i % source.size());
  data::BatchLoader loader(source, indices,
                           {.batch_size = kBatch, .threads = 1, .prefetch_batches = kPrefetched, .seed = 1});
  for (int i = 0; i < kPrefetched; ++i) loader.next();
  const auto begin = std::chrono::steady_clock::now();
  while (loader.next()) {
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(batches * kBatch) / elapsed.count();
}

int run(const char* path) {
  torch::set_num_threads(1);
  runtime::keep_freed_memory();  // as init() does in a worker
  std::map<std::string, DataSplits> sources;
  std::ifstream commands(path);
  for (std::string line; std::getline(commands, line);) {
    std::string json;
    std::int64_t batches = 0;
    std::istringstream(line) >> json >> batches;
    if (sources.count(json) == 0) sources.emplace(json, open(json));
    std::printf("%.3f\n", images_per_second(*sources.at(json).train, batches));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: loader_bench COMMANDS\n");
    return 64;
  }
  return ddprun::bench::run(argv[1]);
}
