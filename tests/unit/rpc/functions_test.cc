#include "worker/runtime/rpc/functions.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/rpc.h>

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::runtime {
namespace {

TORCH_LIBRARY(unit_library, library) {
  library.def("halve(Tensor input) -> Tensor", [](const at::Tensor& input) { return input / 2; });
}

void serve(const std::string& name) {
  rpc::serve_script(torch::jit::compile("def " + name + "(x):\n    return x\n"));
}

std::string refusal_of_script(const std::string& name) {
  try {
    serve(name);
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kConfig ? error.what() : "another code";
  }
  return "none";
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

TEST_CASE("a script whose name is taken is refused") {
  serve("twice");
  CHECK(refusal_of_script("twice") == "rpc: there is a function 'twice' already; give this one another name");
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
  CHECK(type_of(c10::StringType::get()) == "str");
}

}  // namespace
}  // namespace ddprun::runtime
