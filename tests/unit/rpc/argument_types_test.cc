#include "worker/runtime/rpc/argument_types.h"

#include "tests/support/catch.h"
#include <ddprun/rpc.h>

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace ddprun::runtime {
namespace {

template <class T>
bool takes(const c10::IValue& argument) {
  return fits(argument, *rpc::untyped::type_named<T>());
}

template <class T>
bool takes_its_own(const T& value) {
  return takes<T>(rpc::Wire<T>::pack(value));
}

TEST_CASE("every type takes its own values") {
  CHECK(takes_its_own(torch::ones({2})));
  CHECK(takes_its_own(at::Tensor()));
  CHECK(takes_its_own(7));
  CHECK(takes_its_own(std::int64_t{7}));
  CHECK(takes_its_own(0.5F));
  CHECK(takes_its_own(true));
  CHECK(takes_its_own(std::string("a text")));
  CHECK(takes_its_own(std::vector<double>{0.5}));
  CHECK(takes_its_own(std::vector<std::string>{}));
  CHECK(takes_its_own(std::vector<std::vector<std::int64_t>>{{1}, {}}));
  CHECK(takes_its_own(std::vector{torch::ones({2})}));
  CHECK(takes_its_own(std::optional<at::Tensor>()));
  CHECK(takes_its_own(std::optional<std::int64_t>(7)));
  CHECK(takes_its_own(std::tuple<at::Tensor, std::int64_t>{torch::ones({2}), 7}));
  CHECK(takes_its_own(c10::Dict<std::string, double>()));
  CHECK(takes_its_own(at::Scalar(7)));
  CHECK(takes_its_own(at::kFloat));
  CHECK(takes_its_own(at::Device("cpu")));
  CHECK(takes_its_own(c10::IValue()));
  CHECK(takes_its_own(std::vector<rpc::RRef<at::Tensor>>()));
}

TEST_CASE("a number with a fraction may be whole, and is no text") {
  CHECK(takes<double>(7));
  CHECK(takes<double>(true));
  CHECK(takes<std::optional<double>>(7));
  CHECK(takes<std::tuple<double>>(std::tuple<std::int64_t>{7}));
  CHECK_FALSE(takes<double>("7"));
  CHECK_FALSE(takes<std::int64_t>(7.0));
  CHECK_FALSE(takes<int>(true));
}

TEST_CASE("what libtorch would refuse to convert does not fit") {
  CHECK_FALSE(takes<at::Tensor>(c10::IValue()));
  CHECK_FALSE(takes<at::Tensor>(7));
  CHECK_FALSE(takes<std::string>(7));
  CHECK_FALSE(takes<bool>(1));
  CHECK_FALSE(takes<std::vector<double>>(std::vector<std::int64_t>{1}));
  CHECK_FALSE(takes<std::vector<double>>(0.5));
  CHECK_FALSE(takes<std::optional<std::int64_t>>("7"));
  CHECK_FALSE((takes<std::tuple<at::Tensor, std::int64_t>>(std::tuple<std::int64_t, std::int64_t>{7, 7})));
  CHECK_FALSE((takes<std::tuple<std::int64_t>>(std::tuple<std::int64_t, std::int64_t>{7, 7})));
  CHECK_FALSE((takes<c10::Dict<std::string, double>>(7)));
  CHECK_FALSE((takes<c10::Dict<std::string, double>>(c10::Dict<std::string, std::int64_t>())));
  CHECK_FALSE(takes<std::optional<double>>("7"));
  CHECK_FALSE(takes<c10::complex<double>>(0.5));
  CHECK_FALSE(takes<rpc::RRef<at::Tensor>>(torch::ones({2})));
  CHECK_FALSE(takes<std::vector<rpc::RRef<at::Tensor>>>(7));
}

TEST_CASE("a type that libtorch has no name for is left to who unpacks it") {
  CHECK(takes<c10::intrusive_ptr<c10::ivalue::Tuple>>(std::tuple<std::int64_t, std::int64_t>{7, 7}));
}

TEST_CASE("signatures are written in libtorch's words") {
  CHECK(signature_of(std::vector<c10::IValue>{torch::ones({2}), 7, "a text", at::Tensor()}) ==
        "(Tensor, int, str, Tensor)");
  CHECK(signature_of(rpc::untyped::types_of_arguments<double, rpc::RRef<at::Tensor>, c10::IValue>()) ==
        "(float, RRef(Tensor), Any)");
  CHECK(signature_of(std::vector<c10::IValue>()) == "()");
}

}  // namespace
}  // namespace ddprun::runtime
