#include "rendezvous/base/check.h"
#include "worker/models/mlp.h"
#include "worker/models/mnist_cnn.h"
#include "worker/models/model.h"
#include "worker/models/two_conv.h"

namespace ddprun::models {

std::shared_ptr<Model> make_model(const ModelOptions& options) {
  if (options.type == "mlp") return std::make_shared<Mlp>(options);
  if (options.type == "two_conv") return std::make_shared<TwoConv>();
  DDPRUN_CHECK(options.type == "mnist_cnn", "the schema lets no other model through");
  return std::make_shared<MnistCnn>(options);
}

}  // namespace ddprun::models
