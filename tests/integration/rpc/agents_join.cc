// Stands before libtorch's function of this name: the linker takes the program's own first.
#include "tests/integration/rpc/agents_join.h"

#define USE_TENSORPIPE  // without it libtorch's header of its agent is empty
#include <dlfcn.h>
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>

#include <stdexcept>
#include <utility>

namespace {

std::function<void()>& body_before_join() {
  static std::function<void()> body;
  return body;
}

}  // namespace

void before_the_agents_join(std::function<void()> body) { body_before_join() = std::move(body); }

void torch::distributed::rpc::TensorPipeAgent::join(bool shutdown, float timeout) {
  using Join = void (*)(TensorPipeAgent*, bool, float);
  const auto join =
      reinterpret_cast<Join>(::dlsym(RTLD_NEXT, "_ZN5torch11distributed3rpc15TensorPipeAgent4joinEbf"));
  if (join == nullptr) throw std::runtime_error("libtorch's agent has no join()");
  if (body_before_join()) body_before_join()();
  join(this, shutdown, timeout);
}
