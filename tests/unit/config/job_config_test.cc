#include "rendezvous/config/job_config.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::config;

namespace {

const std::string kSmallest = R"({"model": {"type": "mlp"},
 "data": {"type": "synthetic"}})";

Result<JobConfig> read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return read_job_config({.path = "jobs/one.json",
                          .text = text,
                          .overrides = parse_overrides(overrides).value(),
                          .working_directory = "/home/me"});
}

}  // namespace

TEST_CASE("a job of two keys is complete: the schema's defaults are merged") {
  const JobConfig job = read(kSmallest).value();
  CHECK(job.values.at("train").at("batch_size") == 64);
  CHECK(job.values.at("model").at("hidden") == std::vector<int>{128});
  CHECK(job.values.at("backend") == "auto");
}

TEST_CASE("keys of another type are absent, not defaulted") {
  const JobConfig job =
      read(R"({"model": {"type": "two_conv"}, "data": {"type": "synthetic"}, "optimizer": {"type": "adam"}})")
          .value();
  CHECK_FALSE(job.values.at("model").contains("hidden"));
  CHECK_FALSE(job.values.at("optimizer").contains("momentum"));
  CHECK(job.values.at("optimizer").contains("betas"));
}

TEST_CASE("a default may be another with another type") {
  const auto dropout_of = [](const std::string& type) {
    return read(R"({"model": {"type": ")" + type + R"("}, "data": {"type": "synthetic"}})")
        .value()
        .values.at("model")
        .at("dropout");
  };
  CHECK(dropout_of("mlp") == 0);
  CHECK(dropout_of("vgg16_bn") == 0.5);
  CHECK(dropout_of("mobilenet_v3_small") == 0.2);
}

TEST_CASE("every value knows where it comes from") {
  const JobConfig job = read(kSmallest, {"/train/epochs=3"}).value();
  CHECK(job.origins.at("/data/type").text == "jobs/one.json:2:19");
  CHECK(job.origins.at("/train/epochs").text == "--set /train/epochs=3");
  CHECK(job.origins.at("/train/batch_size").text == "default");
}

TEST_CASE("an override is JSON where that fits the key, and plain text otherwise") {
  const JobConfig job = read(kSmallest, {"/backend=gloo", "/model/hidden=[8,9]", "/model/hidden/1=7",
                                         "/name=12", "/ddp/static_graph=true", "/output_dir=null"})
                            .value();
  CHECK(job.values.at("backend") == "gloo");
  CHECK(job.values.at("model").at("hidden") == std::vector<int>{8, 7});
  CHECK(job.values.at("name") == "12");
  CHECK(job.values.at("ddp").at("static_graph") == true);
}

TEST_CASE("an override of one place of a default list keeps the others") {
  CHECK(read(kSmallest, {"/model/hidden/0=7"}).value().values.at("model").at("hidden") ==
        std::vector<int>{7});
}

TEST_CASE("an override makes an entry of a name that the file does not have") {
  const JobConfig job =
      read(kSmallest, {"/evaluate/photos/type=synthetic", "/evaluate/0/type=synthetic"}).value();
  CHECK(job.values.at("evaluate").at("photos").at("test_samples") == 0);
  CHECK(job.values.at("evaluate").at("0").at("type") == "synthetic");
}

TEST_CASE("a password in an override is not repeated") {
  const std::string said =
      read(R"({"model": {"type": "mlp"}, "data": {"type": "mnist", "path": "/data", "download": true}})",
           {"/data/download_from=https://me:secret@host/a@b/"})
          .error()
          .message();
  CHECK(said.find("secret") == std::string::npos);
  CHECK(said.find("--set /data/download_from=https://…@host/a@b/: /data/download_from: ") !=
        std::string::npos);
}

TEST_CASE("the last of two overrides of a key wins") {
  const JobConfig job = read(kSmallest, {"/train/epochs=3", "/train/epochs=4"}).value();
  CHECK(job.values.at("train").at("epochs") == 4);
  CHECK(job.origins.at("/train/epochs").text == "--set /train/epochs=4");
}

TEST_CASE("a path counts from the job file, one of a flag from the working directory") {
  const std::string text = R"({"model": {"type": "mlp"}, "data": {"type": "mnist", "path": "../digits"}})";
  CHECK(read(text).value().values.at("data").at("path") == "/home/me/digits");
  CHECK(read(text, {"/data/path=digits"}).value().values.at("data").at("path") == "/home/me/digits");
  CHECK(read(text, {"/data/path=/data/digits"}).value().values.at("data").at("path") == "/data/digits");
}

TEST_CASE("the output goes to runs/ below the working directory unless the job says where") {
  CHECK(read(kSmallest).value().values.at("output_dir") == "/home/me/runs/one");
  CHECK(read(kSmallest, {"/output_dir=x"}).value().values.at("output_dir") == "/home/me/x");
}

TEST_CASE("a folder that JSON cannot name is refused where a path of the job begins with it") {
  const auto read_in = [](const std::string& path, const std::string& folder,
                          const std::vector<std::string>& overrides) {
    return read_job_config({.path = path,
                            .text = kSmallest,
                            .overrides = parse_overrides(overrides).value(),
                            .working_directory = folder});
  };
  for (const auto& job : {read_in("one.json", "/home/\xff", {}), read_in("jobs/\xff.json", "/home/me", {})}) {
    REQUIRE_FALSE(job.has_value());
    CHECK(job.error().code() == ErrorCode::kConfig);
    CHECK(job.error().message().find("/output_dir: $'/home/") != std::string::npos);
    CHECK(job.error().message().find("is not valid UTF-8, as JSON has to be; rename the folder") !=
          std::string::npos);
  }
  CHECK(read_in("/jobs/one.json", "/home/\xff", {"/output_dir=/out"}).has_value());
}

TEST_CASE("resume is a word or a path") {
  CHECK(read(kSmallest).value().values.at("resume") == "auto");
  CHECK(read(kSmallest, {"/resume=never"}).value().values.at("resume") == "never");
  CHECK(read(kSmallest, {"/resume=a.pt"}).value().values.at("resume") == "/home/me/a.pt");
}

TEST_CASE("the description names each value and its origin") {
  const std::string text = describe(read(kSmallest, {"/seed=7"}).value());
  CHECK_THAT(text, Catch::Contains("/seed = 7") && Catch::Contains("--set /seed=7") &&
                       Catch::Contains("/train/batch_size = 64") && Catch::Contains("default"));
}

TEST_CASE("a file that cannot be read is named with the reason") {
  CHECK(load_job_config("/nowhere/job.json").error().message() ==
        "cannot read the job file /nowhere/job.json: No such file or directory");
  CHECK(load_job_config("/tmp").error().message() == "cannot read the job file /tmp: Is a directory");
  CHECK(load_job_config("/nowhere/job.json").error().code() == ErrorCode::kConfig);
}
