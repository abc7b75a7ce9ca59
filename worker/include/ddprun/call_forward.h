#pragma once

#include <torch/nn/modules/container/any.h>

#include <type_traits>
#include <utility>

/// How the wrappers (DistributedDataParallel, DataParallel) talk to a model, whatever holds it.
namespace ddprun::runtime {

/// The torch::nn::Module in a holder, a shared_ptr or an AnyModule.
template <class Module>
decltype(auto) module_of(Module& module) {
  if constexpr (std::is_same_v<std::remove_const_t<Module>, torch::nn::AnyModule>) {
    return *module.ptr();
  } else {
    return *module;
  }
}

/// True for a holder, a shared_ptr to a module and an AnyModule; false for a plain callable.
template <class Module>
consteval bool holds_a_module() {
  if constexpr (std::is_same_v<Module, torch::nn::AnyModule>) {
    return true;
  } else if constexpr (requires(Module & module) { *module; }) {
    return std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<decltype(*std::declval<Module&>())>>;
  } else {
    return false;
  }
}

template <class Module, class... Args>
auto call_forward(Module& module, Args&&... args) {
  if constexpr (std::is_same_v<Module, torch::nn::AnyModule>) {
    return module.forward(std::forward<Args>(args)...);
  } else if constexpr (requires { module->forward(std::forward<Args>(args)...); }) {
    return module->forward(std::forward<Args>(args)...);
  } else {
    return module(std::forward<Args>(args)...);
  }
}

}  // namespace ddprun::runtime
