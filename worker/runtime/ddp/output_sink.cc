#include "worker/runtime/ddp/output_sink.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/types.h>

namespace ddprun::runtime {
namespace {

// Carries the callback through autograd's context, which stores IValues.
struct Callback : torch::CustomClassHolder {
  explicit Callback(std::function<void()> function) : run(std::move(function)) {}
  std::function<void()> run;
};

struct Sink : torch::autograd::Function<Sink> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList inputs,
                                                const c10::intrusive_ptr<Callback>& on_backward) {
    context->set_materialize_grads(false);
    context->saved_data["on_backward"] = c10::IValue::make_capsule(on_backward);
    torch::autograd::variable_list copies;
    for (const at::Tensor& input : inputs) copies.push_back(input.clone());
    return copies;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto capsule = context->saved_data["on_backward"].toCapsule();
    c10::static_intrusive_pointer_cast<Callback>(capsule)->run();
    gradients.emplace_back();  // none for the callback
    return gradients;
  }
};

}  // namespace

std::vector<at::Tensor> pass_through_sink(const std::vector<at::Tensor>& outputs,
                                          std::function<void()> on_backward) {
  std::vector<at::Tensor> results = outputs;
  std::vector<std::size_t> places;
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].grad_fn()) continue;
    places.push_back(i);
    inputs.push_back(outputs[i]);
  }
  if (inputs.empty()) return results;
  const auto copies =
      Sink::apply(at::TensorList(inputs), c10::make_intrusive<Callback>(std::move(on_backward)));
  for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = copies[i];
  return results;
}

}  // namespace ddprun::runtime
