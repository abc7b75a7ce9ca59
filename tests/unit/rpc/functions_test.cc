#include "worker/runtime/rpc/functions.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/custom_class.h>
#include <torch/jit.h>
#include <torch/library.h>
#include <torch/script.h>
#include <torch/types.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

TORCH_LIBRARY(unit_library, library) {
  library.def("halve(Tensor input) -> Tensor", [](const at::Tensor& input) { return input / 2; });
}

void serve(const std::string& name) {
  rpc::serve_script(torch::jit::compile("def " + name + "(x):\n    return x\n"));
}

void serve_in(const std::string& module, const std::string& name) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  unit->define(c10::QualifiedName("__torch__." + module), "def " + name + "(x):\n    return x\n",
               torch::jit::nativeResolver(), nullptr);
  rpc::serve_script(std::move(unit));
}

void make_function(const std::string& name) {
  rpc::Function<void()>(name, [] {});
}

template <class Body>
std::string refusal_by(Body body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kConfig ? error.what() : "another code";
  }
  return "none";
}

std::string taken(const std::string& name, const std::string& holder) {
  return "rpc: the name '" + name + "' is " + holder + "'s already; give the function another";
}

/// What a call of this name with a tensor finds here.
std::string found_as(const std::string& name) {
  constexpr std::array kKinds{"nothing", "a Function", "a script", "an operator"};
  std::vector<c10::IValue> arguments{torch::ones({2})};
  return kKinds.at(find_callable(wire_name(name), arguments).body.index());
}

struct OfNobody : torch::CustomClassHolder {};

TEST_CASE("a function may give a class that is registered later") {
  using Give = rpc::Function<c10::intrusive_ptr<OfNobody>()>;
  CHECK_NOTHROW(Give("unit::give", [] { return c10::make_intrusive<OfNobody>(); }));
}

TEST_CASE("a function may give what may hold a number of any size") {
  using Give = rpc::Function<std::optional<int>()>;
  CHECK_NOTHROW(Give("unit::give_number", [] { return std::optional(5); }));
}

TEST_CASE("a script without a module has any namespace in which nothing has its name") {
  serve("halve");
  CHECK(found_as("unit_library::halve") == "an operator");
  CHECK(found_as("anywhere::halve") == "a script");
}

TEST_CASE("a name that is taken is refused, and who has it told, whichever came first") {
  make_function("unit::made_first");
  CHECK(refusal_by([] { make_function("unit::made_first"); }) == taken("unit::made_first", "a Function"));
  CHECK(refusal_by([] { serve_in("unit", "made_first"); }) == taken("unit::made_first", "a Function"));
  serve_in("unit", "served_first");
  CHECK(refusal_by([] { make_function("unit::served_first"); }) ==
        taken("unit::served_first", "a TorchScript function"));
  CHECK(refusal_by([] { serve_in("unit", "served_first"); }) ==
        taken("unit::served_first", "a TorchScript function"));
  serve("twice");
  CHECK(refusal_by([] { serve("twice"); }) == taken("twice", "a TorchScript function"));
  CHECK(refusal_by([] { make_function("unit_library::halve"); }) ==
        taken("unit_library::halve", "an operator"));
  CHECK(refusal_by([] { serve_in("unit_library", "halve"); }) == taken("unit_library::halve", "an operator"));
}

TEST_CASE("an operator that came after a function of its name is told before this worker joins") {
  make_function("unit_late::made");
  CHECK_NOTHROW(refuse_names_of_operators());
  torch::Library late(torch::Library::DEF, "unit_late", std::nullopt, __FILE__, __LINE__);
  late.def("made(Tensor input) -> Tensor", [](const at::Tensor& input) { return input; });
  CHECK(refusal_by(refuse_names_of_operators) == taken("unit_late::made", "an operator"));
}

std::string resolved(const std::string& name) {
  return resolve_type(c10::QualifiedName(name)).type_->annotation_str();
}

TEST_CASE("a class that is not registered here keeps its name, within others as well") {
  const std::string unknown = "__torch__.torch.classes.unit.Unknown";
  for (const std::string& name : {unknown, "List[" + unknown + "]", "Dict[str, Optional[" + unknown + "]]"}) {
    CHECK(resolved(name) == name);
    CHECK(*resolve_type(c10::QualifiedName(name)).type_ == *resolve_type(c10::QualifiedName(name)).type_);
  }
}

TEST_CASE(
    "a script without a module gives a reference its type unless the caller names one that it cannot be") {
  rpc::serve_script(torch::jit::compile("def counted(x: int) -> int:\n    return x\n"));
  const auto type_of = [](const c10::TypePtr& named) {
    return result_type(wire_name("elsewhere::counted"), {c10::IValue(1)}, named)->str();
  };
  CHECK(type_of(c10::AnyType::get()) == "int");
  CHECK(type_of(c10::IntType::get()) == "int");
  CHECK(type_of(c10::FloatType::get()) == "int");
  CHECK(type_of(c10::OptionalType::create(c10::IntType::get())) == "int");
  CHECK(type_of(c10::NoneType::get()) == "int");
  CHECK(type_of(c10::StringType::get()) == "str");
}

}  // namespace
}  // namespace ddprun::runtime
