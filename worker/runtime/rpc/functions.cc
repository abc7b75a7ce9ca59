#include "worker/runtime/rpc/functions.h"

#include "worker/runtime/rpc/argument_types.h"
#include "worker/runtime/rpc/leave.h"
#include <ddprun/rpc.h>

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/script_type_parser.h>
#include <torch/custom_class.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ddprun::runtime {

struct RegisteredFunction {
  std::string name;
  rpc::untyped::ArgumentTypes arguments;
  rpc::untyped::ResultType result;
  rpc::untyped::Body body;
  mutable std::once_flag has_run{};
};

namespace {

constexpr std::string_view kAtenPrefix = "aten::";
constexpr std::string_view kScriptPrefix = "__torch__.";

using Operator = std::shared_ptr<torch::jit::Operator>;

/// What is registered lasts as long as the process: others may call it at any time.
struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const RegisteredFunction>> functions;
  std::vector<std::shared_ptr<torch::jit::CompilationUnit>> scripts;
};

Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

[[noreturn]] void refuse_function(ErrorCode code, const std::string& message) {
  throw Exception(code, "rpc: " + message);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// "demo::add" of "__torch__.demo.add".
std::string name_on(const c10::QualifiedName& name) {
  const std::string& text = name.qualifiedName();
  return replaced(text.starts_with(kScriptPrefix) ? text.substr(kScriptPrefix.size()) : text, ".", "::");
}

std::shared_ptr<const RegisteredFunction> registered(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().functions.find(name);
  return found == registry().functions.end() ? nullptr : found->second;
}

torch::jit::Function* script_named(const c10::QualifiedName& name) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& unit : registry().scripts) {
    if (torch::jit::Function* const function = unit->find_function(name)) return function;
  }
  return nullptr;
}

bool is_function_name(const std::string& name) {
  const std::size_t colons = name.find("::");
  return colons != std::string::npos && colons > 0 && !name.ends_with("::") &&
         name.find('.') == std::string::npos;
}

std::vector<Operator> overloads_of(const std::string& name) {
  if (!is_function_name(name)) return {};
  return torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name));
}

/// The first one that takes `arguments`, which its defaults complete.
Operator overload_for(const std::string& name, const std::vector<Operator>& overloads,
                      std::vector<c10::IValue>& arguments) {
  std::string why;
  for (const auto& candidate : overloads) {
    std::vector<c10::IValue> completed = arguments;
    try {
      candidate->schema().checkAndNormalizeInputs(completed);
    } catch (const c10::Error& error) {
      why = error.what_without_backtrace();
      continue;
    }
    arguments = std::move(completed);
    return candidate;
  }
  refuse_function(ErrorCode::kNotFound, fmt::format("no overload of '{}' takes {}: {}", name,
                                                    signature_of(arguments), why.substr(0, why.find('\n'))));
}

Callable missing_function(const std::string& name) {
  return {nullptr, std::make_exception_ptr(Exception(
                       ErrorCode::kNotFound,
                       fmt::format("rpc: there is no function '{}' here; make its Function, or give it to "
                                   "serve_script, before init_rpc",
                                   name)))};
}

Callable operator_among(const std::string& name, const std::vector<Operator>& overloads,
                        std::vector<c10::IValue>& arguments) {
  try {
    Operator found = overload_for(name, overloads, arguments);
    return {declared_result(found->schema()), std::move(found)};
  } catch (const Exception&) {
    return {declared_result(overloads.front()->schema()), std::current_exception()};
  }
}

struct ClassesByName final : torch::jit::Resolver {
  c10::TypePtr resolveType(const std::string& name, const torch::jit::SourceRange&) override {
    if (!name.starts_with(kScriptPrefix)) return nullptr;
    if (auto known = torch::getCustomClass(name)) return known;
    return c10::ClassType::create(c10::QualifiedName(name), {});
  }
};

[[noreturn]] void refuse_taken(const std::string& name, std::string_view holder) {
  refuse_function(ErrorCode::kConfig,
                  fmt::format("the name '{}' is {}'s already; give the function another", name, holder));
}

void refuse_if_taken(const c10::QualifiedName& name) {
  const std::string function_name = name_on(name);
  if (registered(function_name)) refuse_taken(function_name, "a Function");
  if (script_named(name) != nullptr) refuse_taken(function_name, "a TorchScript function");
  if (!overloads_of(function_name).empty()) refuse_taken(function_name, "an operator");
}

void run_body(const std::exception_ptr& missing, std::vector<c10::IValue>&) {
  std::rethrow_exception(missing);
}

void run_body(const std::shared_ptr<const RegisteredFunction>& function, std::vector<c10::IValue>& stack) {
  const std::vector<c10::TypePtr>& types = function->arguments();
  if (!fit(stack, types))
    refuse_function(ErrorCode::kConfig, fmt::format("'{}' takes {} and got {}", function->name,
                                                    signature_of(types), signature_of(stack)));
  c10::IValue result = function->body(std::move(stack));
  stack.clear();
  stack.push_back(std::move(result));
  // It may have made statics, which the process destroys before those that were there.
  std::call_once(function->has_run, leave_before_statics_that_are_there);
}

void run_body(torch::jit::Function* script, std::vector<c10::IValue>& stack) { script->run(stack); }

void run_body(const Operator& found, std::vector<c10::IValue>& stack) { found->getOperation()(stack); }

}  // namespace

c10::TypePtr declared_result(const c10::FunctionSchema& schema) {
  return schema.returns().size() == 1 ? schema.returns().front().type() : c10::AnyType::get();
}

bool is_aten(const std::string& name) { return name.starts_with(kAtenPrefix); }

c10::QualifiedName wire_name(const std::string& name) {
  if (name.empty() || ("::" + name + "::").find("::::") != std::string::npos ||
      name.find("..") != std::string::npos || name.starts_with('.') || name.ends_with('.'))
    refuse_function(ErrorCode::kConfig,
                    fmt::format("'{}' cannot be a function's name; take namespace::name", name));
  if (name.find("::") == std::string::npos) return c10::QualifiedName(name);
  return c10::QualifiedName(std::string(kScriptPrefix) + replaced(name, "::", "."));
}

Operator find_operator(const std::string& name, std::vector<c10::IValue>& arguments) {
  const auto overloads = overloads_of(name);
  if (overloads.empty())
    refuse_function(ErrorCode::kNotFound, fmt::format("there is no operator '{}'", name));
  return overload_for(name, overloads, arguments);
}

void refuse_names_of_operators() {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, function] : registry().functions) names.push_back(name);
    for (const auto& unit : registry().scripts) {
      for (const torch::jit::Function* const function : unit->get_functions())
        names.push_back(name_on(function->qualname()));
    }
  }
  for (const std::string& name : names) {
    if (!overloads_of(name).empty()) refuse_taken(name, "an operator");
  }
}

Callable find_callable(const c10::QualifiedName& name, std::vector<c10::IValue>& arguments) {
  const std::string function_name = name_on(name);
  if (auto function = registered(function_name)) return {function->result(), std::move(function)};
  if (torch::jit::Function* const script = script_named(name))
    return {declared_result(script->getSchema()), script};
  if (const auto overloads = overloads_of(function_name); !overloads.empty())
    return operator_among(function_name, overloads, arguments);
  if (torch::jit::Function* const without_module = script_named(c10::QualifiedName(name.name())))
    return {declared_result(without_module->getSchema()), without_module};
  return missing_function(function_name);
}

void run_callable(const Callable& callable, std::vector<c10::IValue>& stack) {
  std::visit([&stack](const auto& body) { run_body(body, stack); }, callable.body);
}

namespace {

/// Whether a reference to `named` can be had of what gives `result`: `to_here` converts whole numbers, and a reference
/// to nothing takes anything.
bool may_be(const c10::TypePtr& named, const c10::TypePtr& result) {
  const c10::TypeKind kind = named->kind();
  return kind == c10::TypeKind::AnyType || kind == c10::TypeKind::NoneType || named->isSubtypeOf(*result) ||
         result->isSubtypeOf(*named) ||
         (kind == c10::TypeKind::FloatType && result->kind() == c10::TypeKind::IntType);
}

}  // namespace

c10::TypePtr result_type(const c10::QualifiedName& name, std::vector<c10::IValue> arguments,
                         const c10::TypePtr& named) {
  const Callable found = find_callable(name, arguments);
  if (!found.result) return named;
  const auto* const script = std::get_if<torch::jit::Function*>(&found.body);
  const bool is_sure = script == nullptr || (*script)->qualname() == name || may_be(named, found.result);
  return is_sure ? found.result : named;
}

c10::TypePtr type_in_reference(const c10::TypePtr& type) {
  const auto tuple = type->cast<c10::TupleType>();
  return tuple && !tuple->name() ? c10::AnyType::get() : type;
}

c10::StrongTypePtr resolve_type(const c10::QualifiedName& name) {
  torch::jit::ScriptTypeParser parser(std::make_shared<ClassesByName>());
  return {nullptr, parser.parseType(name.qualifiedName())};
}

}  // namespace ddprun::runtime

namespace ddprun::rpc {

void untyped::register_function(const std::string& name, ArgumentTypes arguments, ResultType result,
                                Body body) {
  if (!runtime::is_function_name(name) || runtime::is_aten(name))
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("rpc: the function '{}' needs a name of the form namespace::name, outside of aten",
                    name));
  runtime::refuse_if_taken(runtime::wire_name(name));
  std::shared_ptr<const runtime::RegisteredFunction> function(
      new runtime::RegisteredFunction{name, arguments, result, std::move(body)});
  const std::lock_guard lock(runtime::registry().mutex);
  if (!runtime::registry().functions.emplace(name, std::move(function)).second)
    runtime::refuse_taken(name, "a Function");
}

void serve_script(std::shared_ptr<torch::jit::CompilationUnit> unit) {
  for (const torch::jit::Function* const function : unit->get_functions())
    runtime::refuse_if_taken(function->qualname());
  const std::lock_guard lock(runtime::registry().mutex);
  runtime::registry().scripts.push_back(std::move(unit));
}

}  // namespace ddprun::rpc
