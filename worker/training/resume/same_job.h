#pragma once

#include "worker/training/parts/job_data.h"
#include <ddprun/exception.h>
#include <ddprun/init.h>
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

#include <optional>
#include <string>

namespace ddprun::training {

/// What of a job has to be alike on all ranks, as JSON, key by key: the job file, but for what may differ from node
/// to node (paths, threads, what rank 0 writes), and the sizes and shapes of the data. Of /model/torchscript it is the
/// file's content, which is read.
std::string common_job(const Options& job, const DataSplits& data, const std::vector<JudgingData>& judging);

/// The first difference between two of them, in words: "/optimizer/learning_rate is 0.1, and 0.01 on rank 0". Pure.
std::optional<std::string> first_difference(const std::string& mine, const std::string& rank_zeros);

/// What keeps this rank from training together with rank 0: nothing, or a difference, with kConfig. Nodes whose
/// jobs differ would train different models without a word. Collective.
std::optional<Exception> compare_with_rank_zero(const Context& context, const std::string& common_job);

}  // namespace ddprun::training
