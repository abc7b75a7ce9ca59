#include "worker/commands/torchscript.h"

#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/throw_error.h"
#include "worker/training/step/foreign_error.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

namespace jit = torch::jit;

constexpr std::int64_t kTracedSamples = 2;

/// "torch::nn::Conv2dImpl" → "Conv2d"; names of types in TorchScript are Python's.
std::string type_name(const torch::nn::Module& module) {
  std::string name = module.name();
  if (const auto colons = name.rfind("::"); colons != std::string::npos) name = name.substr(colons + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_');
  });
  return is_plain && !name.empty() ? name : "Module";
}

/// The tree of `module` with the same tensors.
jit::Module mirror(const torch::nn::Module& module, const std::shared_ptr<jit::CompilationUnit>& unit) {
  jit::Module twin(c10::QualifiedName("__torch__." + type_name(module)), unit, /*shouldMangle=*/true);
  twin.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& parameter : module.named_parameters(/*recurse=*/false))
    twin.register_parameter(parameter.key(), parameter.value(), /*is_buffer=*/false);
  for (const auto& buffer : module.named_buffers(/*recurse=*/false))
    twin.register_buffer(buffer.key(), buffer.value());
  for (const auto& child : module.named_children())
    twin.register_module(child.key(), mirror(*child.value(), unit));
  return twin;
}

/// Made up, the same each time: floats around 0, or classes of a vocabulary.
at::Tensor some_samples(std::int64_t count, const DataShape& data) {
  const TensorShape& input = data.tensors.at(0);
  std::vector<std::int64_t> sizes = input.sizes;
  sizes.insert(sizes.begin(), count);
  const at::Tensor places = at::arange(c10::multiply_integers(sizes), at::kLong).view(sizes);
  if (!c10::isFloatingType(input.dtype))
    return (places * 7919).remainder(std::max<std::int64_t>(data.classes, 1)).to(input.dtype);
  return (places.to(at::kDouble) * 0.7).sin().to(input.dtype);
}

jit::Module traced(Model& model, const DataShape& data) {
  const auto unit = std::make_shared<jit::CompilationUnit>();
  jit::Module twin = mirror(model, unit);
  const auto state = jit::tracer::trace(
      {some_samples(kTracedSamples, data)},
      [&](const jit::Stack& inputs) { return jit::Stack{model.forward(inputs.at(0).toTensor())}; },
      [](const at::Tensor&) { return std::string(); }, /*strict=*/true, /*force_outplace=*/false, &twin,
      {"input"});
  auto* const forward =
      unit->create_function(c10::QualifiedName(*twin.type()->name(), "forward"), state.first->graph);
  twin.type()->addMethod(forward);
  return twin;
}

/// What Python will do with the bytes is what the model does.
void check(const std::string& bytes, Model& model, const DataShape& data) {
  std::istringstream stream(bytes);
  jit::Module loaded = jit::load(stream, at::Device(at::kCPU));
  for (const std::int64_t count : {1, 2, 3}) {
    const at::Tensor samples = some_samples(count, data);
    const at::Tensor wanted = model.forward(samples.clone());
    std::string why;
    try {
      const at::Tensor got = loaded.forward({samples.clone()}).toTensor();
      if (at::equal(got, wanted)) continue;
      why = got.sizes() == wanted.sizes()
                ? "gives other numbers"
                : fmt::format("gives [{}] numbers in place of [{}]", fmt::join(got.sizes(), ", "),
                              fmt::join(wanted.sizes(), ", "));
    } catch (const std::exception&) {
      why = "fails (" + training::describe_exception(std::current_exception()).message() + ")";
    }
    throw Exception(ErrorCode::kConfig,
                    fmt::format("the model cannot be traced: what was traced with {} samples {} with {}; its "
                                "forward may take sizes for numbers (use -1, flatten or unflatten), or do "
                                "something else for other values",
                                kTracedSamples, why, count));
  }
}

}  // namespace

void save_torchscript(const std::string& path, Model& model, const DataShape& data) {
  const at::NoGradGuard no_grad;
  model.eval();
  std::string bytes;
  try {
    std::ostringstream stream;
    traced(model, data).save(stream);
    bytes = stream.str();
  } catch (const std::exception&) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the model cannot be traced: {}; its weights can be exported as pt or safetensors",
                    training::describe_exception(std::current_exception()).message()));
  }
  check(bytes, model, data);
  auto file = runtime::value_or_throw(runtime::AtomicFile::create(path));
  if (const Result<void> written = file.write(std::as_bytes(std::span(bytes))); !written)
    runtime::throw_error(written.error());
  if (const Result<void> done = file.commit(); !done) runtime::throw_error(done.error());
}

}  // namespace ddprun::commands
