#pragma once

#include "worker/runtime/comm/backend/backend_request.h"

namespace ddprun::runtime {

/// libtorch's gloo backend: over loopback on one host, else over GLOO_SOCKET_IFNAME or the host name's
/// address.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request);

}  // namespace ddprun::runtime
