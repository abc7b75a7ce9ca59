#pragma once

#include <ATen/core/qualified_name.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <exception>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::runtime {

/// libtorch's wire knows two kinds of functions: operators of ATen, by their schema, and TorchScript functions, by
/// their qualified names. All others, ours too, go as the latter: "demo::add" is "__torch__.demo.add" there, which is
/// the name of a TorchScript function add of a Python module demo. wire_name throws Exception kConfig for what cannot
/// be one.
bool is_aten(const std::string& name);
c10::QualifiedName wire_name(const std::string& name);

/// The overload of an operator that takes `arguments`, which are completed by its defaults. Throws Exception kNotFound.
std::shared_ptr<torch::jit::Operator> find_operator(const std::string& name,
                                                    std::vector<c10::IValue>& arguments);

/// Throws Exception kConfig where an operator that came later has the name of a Function or a TorchScript function.
void refuse_names_of_operators();

struct RegisteredFunction;

/// What a name and arguments stand for here.
struct Callable {
  c10::TypePtr result;  ///< the type that it declares for its result; null where nothing has the name
  /// A Function, a TorchScript function or an operator; the Exception kNotFound where there is none that takes these
  /// arguments. `result` is the first overload's then.
  std::variant<std::exception_ptr, std::shared_ptr<const RegisteredFunction>, torch::jit::Function*,
               std::shared_ptr<torch::jit::Operator>>
      body;
};

/// An operator's defaults complete `arguments`.
Callable find_callable(const c10::QualifiedName& name, std::vector<c10::IValue>& arguments);

/// Runs it with what is on `stack`, and leaves the result there. Throws what the function throws.
void run_callable(const Callable& callable, std::vector<c10::IValue>& stack);

/// The type that a schema, or what a name and arguments stand for here, declares for its result. It is `named`, the
/// caller's, where nothing here has the name, or a script without a module alone, which gives no `named`: the worker
/// that is called has something else of this name.
c10::TypePtr declared_result(const c10::FunctionSchema& schema);
c10::TypePtr result_type(const c10::QualifiedName& name, std::vector<c10::IValue> arguments,
                         const c10::TypePtr& named);

/// The type that references to a value of `type` name: libtorch reads the name of a tuple's, which a tuple of C++ has
/// not, and takes anything for it here.
c10::TypePtr type_in_reference(const c10::TypePtr& type);

/// The type of an RRef that arrives, by its name. A class that is not registered here has its name alone: that is all
/// that a reference needs, and libtorch gives none back that it has refused.
c10::StrongTypePtr resolve_type(const c10::QualifiedName& name);

}  // namespace ddprun::runtime
