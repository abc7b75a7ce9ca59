#pragma once

#include "launcher/why/facts/facts.h"

#include <string>

namespace ddprun::launcher::why {

// Numbers of x86-64. Pure.

/// "read", "futex"; "system call 436" for one that has no row; empty for -1.
std::string name_of_call(int number);

/// A call that was interrupted by a stop goes on as restart_syscall, with its own arguments: which it is, by where the
/// kernel waits. Any other call, or one that is not known: as it is.
int call_behind_restart(int number, const std::string& wait_channel);
/// The same for select() of nothing, by which Python slept before 3.11: a sleep.
int call_behind_select(const SystemCall& call);

/// Whether its first argument is a descriptor.
bool takes_descriptor(int number);
/// Which argument is the address of a path; -1: none.
int path_argument(int number);
/// Whether data comes from the descriptor.
bool reads(int number);
bool writes(int number);
/// It sleeps for a time that it has chosen.
bool is_sleep(int number);
/// A wait for another thread: locks, conditions, joins.
bool is_futex(int number);
/// A wait for the end of a child.
bool is_wait_for_child(int number);
/// The process for whose end such a call waits; 0: any, or it is no such call.
int awaited_child(const SystemCall& call);
/// A wait for one of several descriptors: poll, select, epoll.
bool is_poll(int number);
/// Whether such a wait ends after a time, too, so that its end says nothing.
bool has_timeout(const SystemCall& call);
/// Such a wait of which the kernel holds the list.
bool is_epoll(int number);
/// A wait until what was written to a file is where the file is: of NFS and such, close() is one as well.
bool is_flush(int number);
/// A wait for a lock of a file.
bool is_file_lock(int number);

}  // namespace ddprun::launcher::why
