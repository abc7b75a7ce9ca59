#include "worker/training/parts/job_parts.h"

#include "configs/schemas.h"
#include "rendezvous/config/job_config.h"
#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/commands/smoke_data.h"
#include "worker/training/batches/training_batches.h"
#include "worker/training/parts/plugins.h"
#include <ddprun/trainer/plugin_record.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/jit/api/module.h>
#include <torch/script.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

using Names = std::vector<std::string>;

/// What the schema lets /<part>/type be.
Names types_of(const std::string& part) {
  const auto schema = nlohmann::json::parse(config::train_schema_text());
  Names names = schema.at("properties").at(part).at("properties").at("type").at("enum");
  std::erase(names, "auto");
  std::sort(names.begin(), names.end());
  return names;
}

/// `rows` bytes, as numpy.save writes them.
void write_npy(const std::string& path, int rows) {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ",), }";
  std::ofstream(path, std::ios::binary)
      << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
      << std::string(static_cast<std::size_t>(rows), '\1');
}

/// A folder with a little of every kind of data.
const testing::TemporaryFolder& data_folder() {
  static const testing::TemporaryFolder folder;
  static const bool is_new = [] {
    const std::string mnist = DDPRUN_SOURCE_DIR "/configs/data/mnist-subset";
    std::filesystem::copy(mnist, folder.path(), std::filesystem::copy_options::recursive);
    const auto write = [](const std::string& name, std::size_t bytes) {
      std::ofstream(folder.file(name), std::ios::binary) << std::string(bytes, '\1');
    };
    write("data_batch_1.bin", 2 * 3073);
    write("test_batch.bin", 3073);
    write("train.bin", 2 * 3074);
    write("test.bin", 3074);
    write("val.bin", 1000);
    write("a.txt", 10000);
    std::ofstream(folder.file("train.csv")) << "x,y\n1,2\n3,4\n";
    std::ofstream(folder.file("test.csv")) << "x,y\n1,2\n";
    torch::jit::Module script("scale");
    script.register_parameter("by", at::ones({1}), /*is_buffer=*/false);
    script.define("def forward(self, x):\n  return x * self.by\n");
    script.save(folder.file("scale.pt"));
    write_npy(folder.file("train_x.npy"), 2);
    write_npy(folder.file("train_y.npy"), 2);
    write_npy(folder.file("test_x.npy"), 1);
    write_npy(folder.file("test_y.npy"), 1);
    std::filesystem::create_directories(folder.file("images/a"));
    for (const char* name : {"images/a/1.png", "images/a/2.png", "images/a/3.png"}) write(name, 10);
    return true;
  }();
  REQUIRE(is_new);
  return folder;
}

bool needs_path(const std::string& type) {
  const auto schema = nlohmann::json::parse(config::train_schema_text());
  const nlohmann::json& types = schema["properties"]["data"]["properties"]["path"]["x-when"]["type"];
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// The object /<part> of a job file of that type, with every default.
Options options_of(const std::string& part, const std::string& type) {
  nlohmann::json job{{"model", {{"type", "mlp"}}}, {"data", {{"type", "synthetic"}}}};
  job[part]["type"] = type;
  if (part == "data" && needs_path(type)) job[part]["path"] = data_folder().path();
  if (type == "text") job[part]["path"] = data_folder().file("a.txt");
  if (type == "tokens") job[part]["vocabulary"] = 65536;
  if (type == "image_folder") {
    job[part]["path"] = data_folder().file("images");
    job[part]["transforms"] = job[part]["test_transforms"] = {{{"type", "center_crop"}, {"size", 2}}};
  }
  if (type == "torchscript") job[part]["torchscript"] = data_folder().file("scale.pt");
  if (type == "multi_step") job[part]["milestones"] = {0.5};
  const auto checked =
      config::read_job_config({.path = "job.json", .text = job.dump(), .working_directory = "/"});
  REQUIRE(checked.has_value());
  return Options(checked->values.at(part).dump(), "/" + part);
}

/// What is left of `options` when its part has been made: nobody's, but for the keys of the whole trainer.
Names unread(const Options& options, const std::set<std::string>& others) {
  Names names = options.unread();
  std::erase_if(names, [&](const std::string& name) {
    return name == "type" || name == "plugin" || name == "options" || others.contains(name);
  });
  return names;
}

const DataShape kImages{.tensors = {{"image", {1, 32, 32}}, {"label", {}, at::kLong}}, .classes = 10};
const DataShape kTokens{.tensors = {{"tokens", {8}, at::kLong}, {"next", {8}, at::kLong}}, .classes = 5};
const DataShape kNumbers{.tensors = {{"x", {3}}, {"y", {1}}}};

}  // namespace

TEST_CASE("the schema names exactly the parts that there are") {
  const JobParts parts = built_in_parts();
  CHECK(types_of("model") == parts.models.names());
  CHECK(types_of("data") == parts.data.names());
  CHECK(types_of("task") == parts.tasks.names());
  CHECK(types_of("optimizer") == parts.optimizers.names());
  CHECK(types_of("schedule") == parts.schedules.names());
}

// A factory that asks for a key which the schema does not give its type ends with "missing"; one that forgets a key
// leaves it unread.
TEST_CASE("each model reads the keys that the schema gives it, and no other", "[.slow]") {
  const JobParts parts = built_in_parts();
  for (const std::string& type : parts.models.names()) {
    CAPTURE(type);
    const Options options = options_of("model", type);
    static_cast<void>(parts.models.at(type).make(options, type == "gpt" ? kTokens : kImages));
    CHECK(unread(options, {"weights", "weights_of", "weights_may_differ", "freeze"}) == Names{});
  }
}

TEST_CASE("each data source reads the keys that the schema gives it, and no other") {
  const JobParts parts = built_in_parts();
  for (const std::string& type : parts.data.names()) {
    CAPTURE(type);
    const Options options = options_of("data", type);
    const DataSplits splits = parts.data.at(type).make(options, 0);
    CHECK(unread(options, {"download", "download_from", "download_timeout_s", "keep_tokens", "loader_threads",
                           "prefetch_batches"}) == Names{});
    CHECK(splits.train->size() > splits.held_out->size());
  }
}

TEST_CASE("smoke can make up data for each source that reads files, and the source reads it") {
  const JobParts parts = built_in_parts();
  for (const std::string& type : parts.data.names()) {
    if (!needs_path(type)) continue;
    CAPTURE(type);
    const testing::TemporaryFolder folder;
    nlohmann::json data = nlohmann::json::parse(options_of("data", type).to_json());
    const auto place = commands::make_up_data(data, "mlp", {}, folder.path());
    REQUIRE(place.has_value());
    data["path"] = *place;
    CHECK_NOTHROW(parts.data.at(type).make(Options(data.dump(), "/data"), 0));
  }
}

TEST_CASE("each task reads the keys that the schema gives it, and no other") {
  const JobParts parts = built_in_parts();
  const std::map<std::string, DataShape> data{
      {"classification", kImages}, {"language_modelling", kTokens}, {"regression", kNumbers}};
  for (const std::string& type : parts.tasks.names()) {
    CAPTURE(type);
    const Options options = options_of("task", type);
    const auto task = parts.tasks.at(type).make(options, data.at(type));
    CHECK(unread(options, {}) == Names{});
    CHECK(task->metrics().front().name == "loss");
  }
}

TEST_CASE("each optimizer and each schedule read the keys that the schema gives them, and no other") {
  const JobParts parts = built_in_parts();
  for (const std::string& type : parts.optimizers.names()) {
    CAPTURE(type);
    const Options options = options_of("optimizer", type);
    const auto optimizer = parts.optimizers.at(type).make(options, {{"w", torch::zeros({2, 2})}});
    CHECK(unread(options, {}) == Names{});
    CHECK(optimizer->parameters().size() == 1);
  }
  for (const std::string& type : parts.schedules.names()) {
    CAPTURE(type);
    const Options options = options_of("schedule", type);
    CHECK(parts.schedules.at(type).make(options)({.part = 0, .epochs = 0}) == 1);
    CHECK(unread(options, {"warmup_steps"}) == Names{});
  }
}

TEST_CASE("weight decay for matrices alone leaves out what has one dimension") {
  const JobParts parts = built_in_parts();
  nlohmann::json values = nlohmann::json::parse(options_of("optimizer", "adamw").to_json());
  values["decay"] = "matrices";
  const auto optimizer = parts.optimizers.at("adamw").make(
      Options(values.dump()),
      {{"a", torch::zeros({2, 2})}, {"b", torch::zeros({2})}, {"c", torch::zeros({3, 1})}});
  CHECK(optimizer->group_sizes() == std::vector<std::size_t>{2, 1});
}

TEST_CASE("a model refuses data of another kind, and a task as well") {
  const JobParts parts = built_in_parts();
  CHECK_THROWS_WITH(
      parts.models.at("two_conv").make(Options("{}"), kTokens),
      "/model/type: two_conv takes images, and the data gives \"tokens\" of shape [8]; choose a "
      "model for such data, or other data");
  CHECK_THROWS_WITH(parts.tasks.at("classification").make(Options("{}"), kNumbers),
                    "/task/type: classification needs data with classes, and its \"y\" is a number; choose "
                    "regression");
}

TEST_CASE("what is mixed are the batches of classification alone") {
  const DataSplits data = built_in_parts().data.at("synthetic").make(options_of("data", "synthetic"), 0);
  const auto batches_of = [&](const std::string& task, double alpha) {
    const nlohmann::json job{{"task", {{"type", task}}},
                             {"train", {{"mixup_alpha", 0.0}, {"cutmix_alpha", alpha}}}};
    return training_batches(Options(job.dump()), data.train);
  };
  CHECK(batches_of("regression", 0) == data.train);
  CHECK(batches_of("auto", 1)->shape().tensors[1].dtype == at::kFloat);
  CHECK_THROWS_WITH(
      batches_of("regression", 1),
      "/train/cutmix_alpha: mixes the labels of classification, and the task is regression; remove it");
}

TEST_CASE("a plug-in that was built with something else is refused with what both were built with") {
  const plugin::Record own = DDPRUN_PLUGIN_RECORD(nullptr);
  CHECK(plugin_misfit(own).empty());
  const auto with = [&](const auto& change) {
    plugin::Record record = own;
    change(record);
    return plugin_misfit(record);
  };
  CHECK(with([](plugin::Record& record) { record.torch_version = "1.13.1"; }) ==
        fmt::format("was built against libtorch 1.13.1, and this ddprun against {}; build it again",
                    TORCH_VERSION));
  CHECK(with([](plugin::Record& record) { record.ddprun_version = "0.0.9"; }) ==
        fmt::format("was built against ddprun 0.0.9, and this one is {}; build it again", DDPRUN_VERSION));
  CHECK(with([](plugin::Record& record) { record.cxx11_abi = 0; }) ==
        "was built with _GLIBCXX_USE_CXX11_ABI=0, and this ddprun with 1; build it with the same");
  CHECK(with([](plugin::Record& record) { record.compiler_abi = 102; }) ==
        fmt::format("was built with __GXX_ABI_VERSION=102, and this ddprun with {}; build it with the same",
                    __GXX_ABI_VERSION));
  CHECK(with([](plugin::Record& record) { record.glibcxx_debug = 1 - record.glibcxx_debug; }) ==
        fmt::format("was built with _GLIBCXX_DEBUG={}, and this ddprun with {}; build it with the same",
                    1 - own.glibcxx_debug, own.glibcxx_debug));
}

TEST_CASE("a plug-in of another compiler with the same major ABI fits") {
  plugin::Record record = DDPRUN_PLUGIN_RECORD(nullptr);
  record.compiler_abi = 1002;  // Clang's
  CHECK(plugin_misfit(record).empty());
}

TEST_CASE("of a plug-in with another interface nothing else is read") {
  plugin::Record record{};
  record.interface = 1;
  CHECK(plugin_misfit(record) ==
        "was built against a ddprun whose plug-in interface is 1, and this one's is 2; build it again");
}
