#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

#include <vector_types.h>

#include "tests/simt/fault.h"

/// The SIMT harness: a CUDA kernel, compiled as plain C++, runs on the calling thread, block by block, each
/// CUDA thread a fiber that runs until it waits. Every rule that a kernel breaks is a Fault, thrown by run().
/// A host thread has a machine of its own.
namespace penstock::simt {

/// In which order ready threads, and blocks, take their turns. What a kernel computes must not depend on it.
enum class Order : uint8_t { ascending, descending, shuffled };
/// For the launches that follow on this host thread.
void set_order(Order order);

struct LaunchRequest {
  const char* kernel = "";
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  ///< dynamic shared memory
};

/// Runs `body` once for every thread of every block.
void run(const LaunchRequest& request, const std::function<void()>& body);

/// What launch() does with a kernel: by default it runs there and then. A stand-in for the CUDA runtime
/// queues it on its streams instead. Set before any other thread launches.
using Launcher = std::function<void(void* stream, std::function<void()> kernel)>;
void set_launcher(Launcher launcher);
/// Hands run(request, body) to the launcher.
void launch(void* stream, const LaunchRequest& request, std::function<void()> body);

/// What a kernel reads as its GPU's clock: the host's, never 0.
uint64_t nanoseconds();

/// What the running CUDA thread sees of itself.
struct Here {
  uint3 thread{};
  uint3 block{};
  dim3 block_size;
  dim3 grid_size;
};
/// Set by the machine at every switch.
extern thread_local constinit const Here* current_here;

/// Throws a Fault that names the running thread, then `what`.
[[noreturn]] void fault(const std::string& what);
[[noreturn]] void fault(const std::string& what, const std::source_location& place);

enum class Vote : uint8_t { none, any, all, count };
/// __syncthreads and its voting forms: returns what the vote came to.
int barrier(Vote vote, bool predicate, const std::source_location& place);

enum class WarpOperation : uint8_t { shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, any, all, sync };
/// One lane's part in an operation of the lanes of `mask`: gives `value`, receives the result. `argument` is
/// the source lane, distance or lane mask of a shuffle; `width` its segment.
uint64_t warp_exchange(WarpOperation operation, uint32_t mask, uint64_t value, int argument, int width,
                       const std::source_location& place);

/// Memory that a block shares, with the block's number at each byte that it has written. A bystander's view:
/// no part of it is seen by the thread sanitizer.
struct SharedRegion {
  const char* name = "";
  char* begin = nullptr;
  size_t bytes = 0;
  uint64_t* written = nullptr;  ///< (bytes)
};
/// The launch's dynamic shared memory.
const SharedRegion* dynamic_shared_region();
/// Faults outside the region, where misaligned, and at a read of what this block has not written.
void check_shared_read(const SharedRegion& region, const void* address, size_t bytes, size_t alignment,
                       const std::source_location& place);
/// Faults outside the region and where misaligned; notes the write.
void check_shared_write(const SharedRegion& region, const void* address, size_t bytes, size_t alignment,
                        const std::source_location& place);

}  // namespace penstock::simt
