#include "worker/training/observer.h"

namespace ddprun::training {

std::string to_string(Ending ending) {
  switch (ending) {
    case Ending::kComplete:
      return "complete";
    case Ending::kStopped:
      return "stopped";
    case Ending::kAbandoned:
      return "abandoned";
  }
  return {};
}

}  // namespace ddprun::training
