#include "worker/models/registry.h"

namespace ddprun::models {

// Of the file that has the model's name.
void register_cifar_resnet(ModelRegistry& models);
void register_gpt(ModelRegistry& models);
void register_lenet(ModelRegistry& models);
void register_mlp(ModelRegistry& models);
void register_mnist_cnn(ModelRegistry& models);
void register_mobilenet(ModelRegistry& models);
void register_resnet(ModelRegistry& models);
void register_squeezenet(ModelRegistry& models);
void register_torchscript(ModelRegistry& models);
void register_two_conv(ModelRegistry& models);
void register_vgg(ModelRegistry& models);
void register_vit(ModelRegistry& models);

void register_models(ModelRegistry& models) {
  register_cifar_resnet(models);
  register_gpt(models);
  register_lenet(models);
  register_mlp(models);
  register_mnist_cnn(models);
  register_mobilenet(models);
  register_resnet(models);
  register_squeezenet(models);
  register_torchscript(models);
  register_two_conv(models);
  register_vgg(models);
  register_vit(models);
}

}  // namespace ddprun::models
