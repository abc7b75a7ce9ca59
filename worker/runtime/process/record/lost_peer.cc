#include "worker/runtime/process/record/lost_peer.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace ddprun::runtime {

bool means_lost_peer(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::Error*>(&error) != nullptr) return false;
  // gloo's exceptions have no type that its users can name; their text has its source path.
  return std::string_view(error.what()).find("gloo/") != std::string_view::npos;
}

}  // namespace ddprun::runtime
