#pragma once

#include <ddprun/pt_value.h>

#include <string>

namespace ddprun::runtime {

/// As save_pt; `old`, a file of the same folder ("": none), is gone then, and its place on the disk may be written over
/// (AtomicFile::create).
void save_pt_over(const std::string& old, const std::string& path, const PtValue& value);

}  // namespace ddprun::runtime
