#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// gpt: nanoGPT's: a decoder of tokens, N × tokens in, N × tokens × vocabulary out. The data's tokens are the
/// most that it takes, and its classes the vocabulary. The embedding of tokens and the head are one parameter.
///
/// Options  layers, heads, width: width is a multiple of heads
///          dropout: share of values that is dropped in training
///          bias: whether linear layers and norms have one
void register_gpt(ModelRegistry& models);

}  // namespace ddprun::models
