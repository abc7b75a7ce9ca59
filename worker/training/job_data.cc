#include "worker/training/job_data.h"

#include "worker/training/plugins.h"

#include <cstdint>

namespace ddprun::training {

Result<DataSplits> load_data(JobParts& parts, const Options& job) {
  try {
    load_plugins(job, parts);
    const Options data = job.object("data");
    return make_part(parts.data, data.text("type"), data, static_cast<std::uint64_t>(job.integer("seed")));
  } catch (const Exception& exception) {
    return Error(exception.code(), exception.what());
  }
}

}  // namespace ddprun::training
