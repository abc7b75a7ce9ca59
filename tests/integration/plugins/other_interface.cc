#include <cstdint>

namespace {
const std::int64_t kRecord[4] = {99, 0, 0, 0};
}

extern "C" const std::int64_t* ddprun_plugin_record();
extern "C" const std::int64_t* ddprun_plugin_record() { return kRecord; }
