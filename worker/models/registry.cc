#include "worker/models/registry.h"

#include "worker/models/mlp.h"
#include "worker/models/mnist_cnn.h"
#include "worker/models/two_conv.h"

namespace ddprun::models {

void register_models(ModelRegistry& models) {
  register_mlp(models);
  register_mnist_cnn(models);
  register_two_conv(models);
}

}  // namespace ddprun::models
