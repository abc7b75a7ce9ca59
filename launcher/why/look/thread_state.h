#pragma once

#include "launcher/why/facts/facts.h"

namespace ddprun::launcher::why {

/// A thread that ran, or wanted to, for so much of the time between two looks computes. Gloo's threads, which wake a
/// hundred times a second, stay far below it.
inline constexpr double kBusyShare = 0.3;
/// A process that swaps, in major page faults a second.
inline constexpr double kManyFaults = 100;

/// How much of the time between two looks the busiest thread ran or wanted to run. Pure, like the others.
double busy_share(const ProcessLook& first, const ProcessLook& second);
/// How much of it that thread ran.
double running_share(const ProcessLook& first, const ProcessLook& second);

/// Whether its main thread waits until what was written is where the file is, and page after page gets there.
bool flushes(const ProcessLook& first, const ProcessLook& second);
/// Bytes that it read between two looks: by system calls, or, where that is more, from storage.
std::uint64_t bytes_read(const ProcessLook& first, const ProcessLook& second);
/// Bytes that it wrote, likewise.
std::uint64_t bytes_written(const ProcessLook& first, const ProcessLook& second);
/// Both, in each second.
double bytes_per_second(const ProcessLook& first, const ProcessLook& second);
/// Pages of its main thread that came back from disk in each second.
double major_faults_per_second(const ProcessLook& first, const ProcessLook& second);

/// Whether a process that others wait for gets on: it runs, or wants to, or reads, writes, swaps, receives.
bool gets_on(const ProcessLook& first, const ProcessLook& second);

/// Whether a process has run at all, if only for a moment, or has read or written. Pure.
bool does_anything(const ProcessLook& first, const ProcessLook& second);

/// Whether it uses NCCL: torch names the threads that watch over it, and NCCL its own where it is told to.
bool has_nccl(const ProcessLook& look);
/// Whether so much over a connection is more than NCCL's own (RAS), whose processes tell each other once a second in
/// about a hundred bytes that they are there.
bool is_more_than_signs_of_life(std::uint64_t bytes, double seconds);

bool is_stopped(const ProcessLook& look);
/// By a debugger, now: one that has let it go on, and strace, do not hold it.
bool is_traced(const ProcessLook& look);
/// By what takes stacks for `ddprun why`, for a moment.
bool is_looked_at(const ProcessLook& look);
/// The main thread waits in the kernel, for a disk or a file server, and nothing reaches it.
bool is_in_kernel(const ProcessLook& look);
/// It waits for the server of a file system in a process (FUSE).
bool awaits_file_server(const ThreadLook& thread);

/// Whether a debugger's stop can reach it and leaves nothing behind.
bool may_be_stopped(const ProcessLook& look);

}  // namespace ddprun::launcher::why
