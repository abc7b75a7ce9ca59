#include "worker/models/registry.h"

#include "worker/models/cifar_resnet.h"
#include "worker/models/gpt.h"
#include "worker/models/lenet.h"
#include "worker/models/mlp.h"
#include "worker/models/mnist_cnn.h"
#include "worker/models/mobilenet.h"
#include "worker/models/resnet.h"
#include "worker/models/torchscript.h"
#include "worker/models/two_conv.h"
#include "worker/models/vgg.h"
#include "worker/models/vit.h"

namespace ddprun::models {

void register_models(ModelRegistry& models) {
  register_cifar_resnet(models);
  register_gpt(models);
  register_lenet(models);
  register_mlp(models);
  register_mnist_cnn(models);
  register_mobilenet(models);
  register_resnet(models);
  register_torchscript(models);
  register_two_conv(models);
  register_vgg(models);
  register_vit(models);
}

}  // namespace ddprun::models
