#pragma once

#include "launcher/why/facts/facts.h"

#include <string>

namespace ddprun::launcher::why {

// How a page says what a rank does. Pure.

/// "1.5 MB/s".
std::string rate(double bytes_per_s);
/// "/data/shard-0017.tar (nfs4, fs01:/data)".
std::string place(const Object& object);
/// "is blocked in write() to a pipe that is full": what a call waits for.
std::string call_words(const ThreadLook& main, const Object& object);

/// "pid 4711 (pt_data_worker)".
std::string child_name(const Child& child);
/// "computes"; empty: nothing that has a name.
std::string child_does(const Child& child);
/// What a rank that waits for a process of its own waits for; empty: it has none.
std::string children_words(const RankFacts& facts);
/// For whom a main thread that waits for a lock may wait: a thread that is at something, else its processes.
std::string helpers_words(const RankFacts& facts);
/// The peer is its rank in the group, and of other groups the members are not known.
std::string message_words(const Collective& message);

/// "wait in all_reduce" of "waits in all_reduce": the words of an activity, said of several ranks.
std::string plural(const std::string& words);

}  // namespace ddprun::launcher::why
