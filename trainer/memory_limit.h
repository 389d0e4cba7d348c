#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "trainer/job/job.h"
#include "trainer/memory_report.h"

namespace penstock {

/// The plan breaks parallel.memory_limit_gib, or what the machine has; exit code ExitCode::usage.
class MemoryLimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// parallel.memory_limit_gib in bytes; nothing with "auto".
std::optional<int64_t> stated_memory_limit(const Job& job);

/// Bytes of a GPU that are left to each rank there for what lies outside the arenas and is not there yet when
/// they are made: kernels and tables of CUDA's libraries, graphs.
inline constexpr size_t gpu_reserve = size_t{512} << 20;

/// What a rank's arenas may take of `limit` bytes: the rest is its token buffers and outside_reserve. At
/// least 1. A function of the job alone, so that plan, replay and every start of a run agree.
int64_t arena_limit(const Job& job, int64_t limit);

/// Bytes of a rank's arenas that a plan may use here: of parallel.memory_limit_gib, or with "auto" of an
/// equal share of what this machine, or the GPU, has left for the `ranks_here` ranks, or those that share it.
int64_t device_memory_limit(const Job& job, const Device& device, int64_t ranks_here);

/// Throws MemoryLimitError with the numbers of every rank that would need more than the job allows or, where
/// it leaves that to the program ("auto"), than this machine has left: for all ranks, if they are
/// `in_one_process`. On GPUs: than the rank's has left, for those that share it. `asked` is the job as it was
/// written, before a plan filled what it leaves open: the advice names only what it fixes. Call it before
/// arenas are made.
void check_memory_limit(const MemoryReport& report, const Job& asked, const Device& device,
                        bool in_one_process);

/// Throws MemoryLimitError with the numbers where `next` has no room beside the arrangement that runs, under
/// parallel.memory_limit_gib or, with "auto", in what this machine has left.
void check_room_beside(const MemoryReport& running, const MemoryReport& next, const Job& asked,
                       const Device& device, bool in_one_process);
/// What arenas of each pipeline rank may take beside those that run: what check_room_beside() would let pass,
/// as far as it can be known before.
std::vector<int64_t> room_beside(const MemoryReport& running, const Job& job, const Device& device);

/// What to change in the job so that a rank needs less; ends with "or raise the limit" where there is one.
std::string memory_advice(const Job& asked);

/// A warning where a process of `ranks_here` ranks holds more outside its arenas than the limit reserves for
/// it; else empty. Nothing depends on the measurement but this text.
std::string outside_warning(const MemoryReport& report, const Job& job, int64_t ranks_here);

}  // namespace penstock
