#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// The few words of Python's that ranks exchange when they join and leave a world (torch.distributed.rpc.api,
/// _all_gather): pickled calls of two functions. Every rank says them, so that one in Python may be among them; nothing
/// else of Python's is understood, and nothing is executed.
namespace ddprun::runtime {

/// What a rank tells of its devices in all_gather_object: (name, 0, {}, []).
std::string pickled_devices(const std::string& name);

/// A call of _gather_to_leader(sequence, worker, None, names).
std::string pickled_gather(const std::string& sequence, const std::string& worker,
                           const std::set<std::string>& names);
/// A call of _broadcast_to_followers(sequence, {name: None, …}).
std::string pickled_broadcast(const std::string& sequence, const std::set<std::string>& names);
/// As a gather, for C++ ranks: `worker` is gone, and nobody need wait for the others to come. A rank in Python keeps it
/// under a sequence that it never asks for.
std::string pickled_loss(const std::string& sequence, const std::string& worker,
                         const std::set<std::string>& names);
std::string pickled_none();

/// One of these calls.
struct GatherCall {
  enum class Kind { kArrived, kAllArrived, kLost };
  Kind kind = Kind::kArrived;
  std::string sequence;
  std::string worker;  ///< who has arrived or is gone
};
/// Nothing for another call.
std::optional<GatherCall> read_gather_call(std::string_view pickle);

/// The message of a RemoteException, if a pickled answer is one.
std::optional<std::string> read_python_exception(std::string_view pickle);

/// The name of the sequence: all names in order, and how many there were before.
std::string sequence_name(const std::set<std::string>& names, int number);

}  // namespace ddprun::runtime
