#pragma once

namespace ddprun::runtime {

/// From now on malloc keeps what the process frees for the next that asks, up to a gigabyte at the end of the heap.
///
/// What it does otherwise, of blocks above 128 KiB to 32 MiB, is to give them back to the kernel, and get them anew one
/// zeroed page at a time: that of every activation in every step. By mallopt(3), for the whole process. Where
/// GLIBC_TUNABLES says something of these thresholds, that counts. Idempotent; any thread.
void keep_freed_memory();

/// Gives what malloc keeps back to the kernel, once: after a start that needed more than a step does. Any thread.
void release_freed_memory();

}  // namespace ddprun::runtime
