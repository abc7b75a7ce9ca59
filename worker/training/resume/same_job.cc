#include "worker/training/resume/same_job.h"

#include "worker/runtime/checkpoint/whole_file.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace ddprun::training {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 23> kMayDiffer{"/$schema",
                                                 "/name",
                                                 "/output_dir",
                                                 "/resume",
                                                 "/backend",
                                                 "/device",
                                                 "/hang_timeout_s",
                                                 "/model/plugin",
                                                 "/model/weights",
                                                 "/data/plugin",
                                                 "/data/path",
                                                 "/data/download",
                                                 "/data/download_from",
                                                 "/data/download_timeout_s",
                                                 "/task/plugin",
                                                 "/data/loader_threads",
                                                 "/data/prefetch_batches",
                                                 "/log/csv",
                                                 "/log/progress",
                                                 "/log/report",
                                                 "/log/summary",
                                                 "/log/tensorboard",
                                                 "/checkpoint/keep"};

json describe(const DataSource& source) {
  json tensors = json::array();
  const DataShape& shape = source.shape();
  for (const TensorShape& tensor : shape.tensors)
    tensors.push_back(
        {{"name", tensor.name}, {"sizes", tensor.sizes}, {"dtype", at::toString(tensor.dtype)}});
  return {{"samples", source.size()},         {"tensors", tensors},       {"classes", shape.classes},
          {"class names", shape.class_names}, {"columns", shape.columns}, {"numbers", shape.scaling}};
}

/// What tells a file from another one, wherever it lies; or why it cannot be told.
std::string content_in_words(const std::string& path) {
  const Result<runtime::WholeFile> file = runtime::WholeFile::read(path);
  if (!file) return file.error().message();
  const std::span<const std::byte> bytes = file->bytes();
  return fmt::format("{} bytes with the CRC-32 {:08x}", bytes.size(),
                     ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::string common_job(const Options& job, const DataSplits& data, const std::vector<JudgingData>& judging) {
  json common = json::parse(job.to_json());
  for (const char* place : kMayDiffer) {
    const json::json_pointer pointer(place);
    if (common.contains(pointer)) common[pointer] = nullptr;
  }
  if (job.object("model").has("torchscript"))
    common["model"]["torchscript"] = content_in_words(job.object("model").text("torchscript"));
  common["training data"] = describe(*data.train);
  common["held-out data"] = describe(*data.held_out);
  for (const JudgingData& more : judging) {
    json& entry = common["evaluate"][more.name];
    for (const char* key : {"path", "plugin", "download", "download_from", "download_timeout_s"})
      entry[key] = nullptr;
    common["data of /evaluate/" + more.name] = describe(*more.source);
  }
  // A folder or a column may have a name that is no UTF-8.
  return common.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<std::string> first_difference(const std::string& mine, const std::string& rank_zeros) {
  const json here = json::parse(mine).flatten();
  const json there = json::parse(rank_zeros).flatten();
  const auto in_words = [](const json& all, const std::string& place) {
    return all.contains(place) ? all[place].dump() : std::string("not there");
  };
  for (const json* side : {&here, &there}) {
    for (const auto& [place, value] : side->items()) {
      if (in_words(here, place) == in_words(there, place)) continue;
      return fmt::format("{} is {}, and {} on rank 0", place, in_words(here, place), in_words(there, place));
    }
  }
  return std::nullopt;
}

std::optional<Exception> compare_with_rank_zero(const Context& context, const std::string& common_job) {
  const std::string rank_zeros = broadcast_bytes(context, common_job);
  if (rank_zeros == common_job) return std::nullopt;
  return Exception(
      ErrorCode::kConfig,
      fmt::format("the job is not the same on all ranks: on rank {} {}; start every node with the "
                  "same job file, flags and data",
                  context.rank(), first_difference(common_job, rank_zeros).value_or("its text differs")));
}

}  // namespace ddprun::training
