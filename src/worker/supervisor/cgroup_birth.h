// vfork into a cgroup (private to the supervisor's program).
#pragma once

#include <sys/types.h>

namespace harmonics::inline in_worker {

/// Like vfork, but the child begins life in the cgroup of v2 whose folder `cgroup` has open, and
/// runs `child(argument)`, which must not return. The child shares this process's memory, and this
/// process stands still, until the child has become another program or ended. -1 and errno where
/// the kernel (before 5.7) or the processor's family (others than x86-64 and 64-bit ARM) cannot do
/// that, or the folder is not for us.
pid_t vfork_into_cgroup(int cgroup, void (*child)(void*), void* argument);

}  // namespace harmonics::inline in_worker
