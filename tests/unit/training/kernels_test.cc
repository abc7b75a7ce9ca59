#include "worker/training/kernels.h"

#include "tests/support/catch.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <string>

using namespace ddprun;
using training::choose_kernels;

namespace {

Options train_options(const std::string& precision, bool deterministic, bool benchmark) {
  const auto word = [](bool value) { return std::string(value ? "true" : "false"); };
  return Options(R"({"precision": ")" + precision + R"(", "deterministic": )" + word(deterministic) +
                     R"(, "cudnn_benchmark": )" + word(benchmark) + "}",
                 "/train");
}

}  // namespace

TEST_CASE("a job file's choice of kernels reaches libtorch, and the next job's takes its place") {
  const at::Context& context = at::globalContext();
  choose_kernels(train_options("tf32", true, false));
  CHECK(context.allowTF32CuBLAS());
  CHECK(context.allowTF32CuDNN());
  CHECK(context.deterministicCuDNN());
  CHECK(context.deterministicAlgorithms());
  CHECK_FALSE(context.benchmarkCuDNN());
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":4096:8");

  choose_kernels(train_options("fp32", false, true));
  CHECK_FALSE(context.allowTF32CuBLAS());
  CHECK_FALSE(context.allowTF32CuDNN());
  CHECK_FALSE(context.deterministicCuDNN());
  CHECK_FALSE(context.deterministicAlgorithms());
  CHECK(context.benchmarkCuDNN());
}
