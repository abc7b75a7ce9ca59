#pragma once

#include "worker/training/job_parts.h"

#include <string>

namespace ddprun::training {

/// Opens the plug-ins that /model, /data and /task of `job` name, and adds what they bring. A library is opened
/// once, and stays open until the process ends: objects, threads and generators of it live on.
///
/// Errors  Exception kConfig: it is not there or cannot be loaded (with the names that are missing), is no
///         plug-in, was built against another ddprun or libtorch, or brings a name that is taken.
void load_plugins(const Options& job, JobParts& parts);

/// Errors  Exception kConfig, where there is a key that nobody has asked for.
void refuse_unread(const Options& options, const std::string& type);

/// What `object` of a job file ("/model") stands for: the entry's product of its own keys, or of its /options
/// where it names a plug-in, which has to know them all.
template <class Factory, class... Arguments>
auto make_part(const Registry<Factory>& registry, const std::string& type, const Options& object,
               const Arguments&... arguments) {
  const auto& entry = registry.at(type);
  if (!object.has("plugin")) return entry.make(object, arguments...);
  const Options own = object.object("options");
  auto part = entry.make(own, arguments...);
  refuse_unread(own, type);
  return part;
}

}  // namespace ddprun::training
