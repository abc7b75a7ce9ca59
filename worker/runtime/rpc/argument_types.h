#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <string>
#include <vector>

namespace ddprun::runtime {

/// Whether a Function can take `argument` as one of type `expected`: whatever Wire unpacks, so a whole number for one
/// with a fraction. True for types that are not looked into here: unpacking them says what is wrong.
bool fits(const c10::IValue& argument, const c10::Type& expected);
bool fit(const std::vector<c10::IValue>& arguments, const std::vector<c10::TypePtr>& expected);

/// "(Tensor, int)"
std::string signature_of(const std::vector<c10::IValue>& arguments);
std::string signature_of(const std::vector<c10::TypePtr>& types);

}  // namespace ddprun::runtime
