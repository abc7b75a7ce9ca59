#include "worker/runtime/comm/backend/gloo.h"

#include "rendezvous/base/env_contract.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace ddprun::runtime {
namespace {

using c10d::ProcessGroupGloo;

std::shared_ptr<::gloo::transport::Device> make_device(bool one_host) {
  // libtorch's own variable: whoever sets it knows the machine better than we do.
  if (const auto interface = process_env("GLOO_SOCKET_IFNAME"); interface && !interface->empty()) {
    return ProcessGroupGloo::createDeviceForInterface(*interface);
  }
  // Resolving the host name can take seconds, and on one host nothing is won by it.
  return one_host ? ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                  : ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request) {
  auto options = ProcessGroupGloo::Options::create(request.timeout);
  options->group_name = request.name;
  options->global_ranks_in_group = request.ranks;
  options->devices.push_back(make_device(request.one_host));
  return c10::make_intrusive<ProcessGroupGloo>(request.store, request.rank, request.world_size, options);
}

}  // namespace ddprun::runtime
