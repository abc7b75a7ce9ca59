#pragma once

#include "worker/training/parts/job_parts.h"

#include <string>

namespace ddprun::plugin {
struct Record;
}

namespace ddprun::training {

/// Why a plug-in that was built with what `record` says does not fit this ddprun, and what to do; "": it does. Of a
/// record of another interface nothing else is read. Pure.
std::string plugin_misfit(const plugin::Record& record);

/// Opens the plug-ins that /model, /data and /task of `job` name, and adds what they bring. A library is opened
/// once, and stays open until the process ends: objects, threads and generators of it live on.
///
/// Errors  Exception kConfig: it is not there or cannot be loaded (with the names that are missing), is no
///         plug-in, was built with another ddprun, libtorch or ABI (plugin_misfit), or brings a name that is taken.
void load_plugins(const Options& job, JobParts& parts);

/// Errors  Exception kConfig, where there is a key that nobody has asked for.
void refuse_unread(const Options& options, const std::string& type);

/// Errors  Exception kConfig: `type` is ddprun's own, and `object` names a plug-in.
[[noreturn]] void refuse_type(const Options& object, const std::string& type);
/// Errors  Exception kConfig: the plug-in's factory gave nothing.
[[noreturn]] void refuse_nothing(const Options& object, const std::string& type);

template <class Pointer>
bool is_missing(const Pointer& part) {
  return part == nullptr;
}
inline bool is_missing(const DataSplits& splits) { return !splits.train || !splits.held_out; }

/// What `object` of a job file ("/model") stands for: the entry's product of its own keys, or of its /options
/// where it names a plug-in, which has to know them all.
template <class Factory, class... Arguments>
auto make_part(const Registry<Factory>& registry, const std::string& type, const Options& object,
               const Arguments&... arguments) {
  const auto& entry = registry.at(type);
  if (!object.has("plugin")) return entry.make(object, arguments...);
  if (!entry.is_plugins) refuse_type(object, type);
  const Options own = object.object("options");
  auto part = entry.make(own, arguments...);
  refuse_unread(own, type);
  if (is_missing(part)) refuse_nothing(object, type);
  return part;
}

}  // namespace ddprun::training
