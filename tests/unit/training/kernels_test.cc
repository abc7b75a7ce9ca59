#include "worker/training/step/kernels.h"

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

TEST_CASE("a precision that is slow on the CPU is warned of") {
  const auto warning = [](const std::string& precision, const char* device, bool is_slow) {
    return training::warning_of_slow_precision(train_options(precision, false, false), at::Device(device),
                                               is_slow);
  };
  CHECK(warning("bf16", "cpu", true) ==
        "/train/precision: this CPU has no AVX-512, and takes many times as long for matrix products in bf16 "
        "as in fp32; "
        "go on with --set /train/precision=fp32");
  CHECK(warning("fp32", "cpu", true).empty());
  CHECK(warning("bf16", "cuda", true).empty());
  CHECK(warning("bf16", "cpu", false).empty());
  CHECK(warning("fp16", "cpu", false) ==
        "/train/precision: most CPUs take many times as long in fp16 as in fp32; bf16 is for them, too");
  CHECK(warning("fp16", "cuda", false).empty());
}
