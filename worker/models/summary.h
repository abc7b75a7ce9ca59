#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/model.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::models {

/// What one module of a model costs, of those that have parameters; or an attention, which has none.
struct LayerCost {
  std::string name;                  ///< "layer1.0.conv1"
  std::string kind;                  ///< "Conv2d"
  std::vector<std::int64_t> output;  ///< of one sample; empty where its parameters are used by others only
  std::int64_t parameters = 0;       ///< its own; of tied ones the first owner's
  std::int64_t multiply_adds = 0;  ///< of one sample's forward: of convolutions, linear layers and attention
};

/// In the order in which a sample passes them; last those that no operation used directly. Runs the model once
/// on a sample of zeros, in evaluation mode and without gradients, where its parameters are; changes nothing.
std::vector<LayerCost> layer_costs(Model& model, const DataShape& data);

/// The same as a table, with totals.
std::string summary(Model& model, const DataShape& data);

}  // namespace ddprun::models
