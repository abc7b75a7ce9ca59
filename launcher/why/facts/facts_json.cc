#include "launcher/why/facts/facts_json.h"

#include <nlohmann/json.hpp>

namespace ddprun::launcher::why {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SystemCall, number, arguments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ThreadLook, tid, name, state, wait_channel, call, cpu_s,
                                                queued_s, major_faults, switches)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ProcessLook, at_s, started, threads, tracer, tracer_name,
                                                is_frozen, read_bytes, written_bytes, storage_read_bytes,
                                                storage_written_bytes, throttled_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Object, path, mount, source, device, other_end, silent_s,
                                                is_store)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Collective, group, backend, sequence, id, operation, is_peer,
                                                peer, sizes, types, created_ns, is_over, lingers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Membership, group, ranks, newest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Recorder, is_there, problem, next, entries, memberships)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankProgress, step, phase, beats)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Frame, function, file, line, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PythonThread, tid, name, owns_gil, frames)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NativeThread, tid, name, functions)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Connection, local, remote, unsent, unread, retransmits, came,
                                                went)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Child, pid, name, state, call, object, is_busy, bytes_per_s,
                                                feeds, python)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankFacts, rank, local_rank, pid, siblings, ended_with_0,
                                                host, program, problem, first, second, object, recorder_first,
                                                recorder, progress_first, progress, python, python_problem,
                                                native, native_problem, stopped_s, connections,
                                                launcher_connections, children, file_servers, quiet_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(JobPicture, tag, launcher, is_launcher_stopped, command,
                                                generation, phase, awaits, world_size, taken_ns, ranks,
                                                asks_others, unseen, silent_nodes)

namespace {

template <class T>
std::string dump(const T& value, bool is_ascii) {
  return json(value).dump(-1, ' ', is_ascii, json::error_handler_t::replace);
}

template <class T>
std::optional<T> parse(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  try {
    return parsed.get<T>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_text(const RankFacts& facts) { return dump(facts, true); }
std::string to_text(const JobPicture& picture) { return dump(picture, false); }
json to_json(const JobPicture& picture) { return picture; }
std::optional<RankFacts> parse_rank_facts(std::string_view text) { return parse<RankFacts>(text); }
std::optional<JobPicture> parse_picture(std::string_view text) { return parse<JobPicture>(text); }

}  // namespace ddprun::launcher::why
