#include "tests/support/catch.h"
#include <ddprun/exception.h>
#include <ddprun/trainer/registry.h>

#include <memory>

using Catch::Matchers::Message;
using namespace ddprun;

namespace {

class Twice final : public Model {
 public:
  at::Tensor forward(at::Tensor input) override { return input * 2; }
};

ModelFactory make_twice() {
  return [](const Options&, const DataShape&) { return std::make_shared<Twice>(); };
}

}  // namespace

TEST_CASE("a registry makes what a name stands for") {
  ModelRegistry models("model");
  models.add("twice", "doubles", make_twice());
  const auto model = models.at("twice").make(Options("{}"), DataShape{});
  CHECK(model->forward(at::ones({1})).item<float>() == 2);
  CHECK(models.at("twice").about == "doubles");
}

TEST_CASE("a name that is taken, or not there, is refused with the names there are") {
  ModelRegistry models("model");
  models.add("twice", "doubles", make_twice());
  models.add("again", "doubles", make_twice());
  CHECK_THROWS_MATCHES(models.add("twice", "", make_twice()), Exception,
                       Message("there are two entries of the name twice for a model; give one another name"));
  CHECK_THROWS_MATCHES(models.at("thrice"), Exception, Message("no model thrice; there are again, twice"));
}
