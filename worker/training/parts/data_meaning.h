#pragma once

#include "worker/training/state/saved_part.h"
#include <ddprun/pt_value.h>
#include <ddprun/trainer/batch.h>

#include <memory>
#include <string>

namespace ddprun::training {

// What the numbers of a data source mean to a model that has learned from them: the names of classes and columns, and
// how numbers are scaled. A model's predictions are worth something on data of the same meaning alone.

/// As an entry of a checkpoint.
PtValue save_meaning(const DataShape& data);

/// Whether `data`, which stands at `place` of the job file, means what the training data, `learned`, means. What one of
/// them does not tell is believed.
/// Errors  Exception kConfig: the first difference, and what to do.
void check_meaning(const DataShape& data, const DataShape& learned, const std::string& place);

/// The same of /data, for what save_meaning gave when the model learned.
void check_meaning(const DataShape& data, const PtValue& learned);

/// "data" of a checkpoint: a model goes on with numbers that mean what they did. `data` outlives it.
std::unique_ptr<SavedPart> meaning_part(const DataShape& data);

}  // namespace ddprun::training
