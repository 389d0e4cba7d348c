#include "trainer/memory_limit.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/cpu/host_memory.h"
#include "kernels/device/device_memory.h"
#include "trainer/model_state.h"

namespace penstock {
namespace {

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double gibibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Ranks of one process on the same GPU.
int64_t ranks_sharing(const Job& job, const DeviceMemory& memory, int64_t ranks_here) {
  if (!job.parallel.share_devices) return 1;
  return (ranks_here + memory.devices - 1) / memory.devices;
}

// The fullest ranks could be those that share.
void check_device(const MemoryReport& report, const Job& asked, const Device& device, const OwnMemory& memory,
                  bool in_one_process) {
  const DeviceMemory left = memory.memory_left();
  std::vector<int64_t> ranks;
  for (const RankMemory& rank : report.ranks) {
    ranks.insert(ranks.end(), static_cast<size_t>(report.replicas),
                 static_cast<int64_t>(rank.device.bytes() + gpu_reserve));
  }
  std::sort(ranks.rbegin(), ranks.rend());
  const int64_t sharing = in_one_process ? ranks_sharing(asked, left, static_cast<int64_t>(ranks.size())) : 1;
  const int64_t wanted = std::accumulate(
      ranks.begin(), ranks.begin() + std::min<int64_t>(sharing, std::ssize(ranks)), int64_t{0});
  if (wanted <= static_cast<int64_t>(left.bytes)) return;
  throw MemoryLimitError(fmt::format(
      "{} {:.3f} GiB ({} bytes, {:.0f} MiB a rank among them for CUDA's libraries), but {} has {:.3f} GiB "
      "({} "
      "bytes) of {:.1f} left; stop what else holds memory there (nvidia-smi), {} (`penstock plan --memory` "
      "shows "
      "every piece)",
      sharing > 1 ? fmt::format("{} ranks share a GPU and need", sharing) : std::string("a rank needs"),
      gibibytes(wanted), wanted, mebibytes(static_cast<int64_t>(gpu_reserve)), device.description(),
      gibibytes(static_cast<int64_t>(left.bytes)), left.bytes, gibibytes(static_cast<int64_t>(left.total)),
      memory_advice(asked)));
}

void check_this_machine(const MemoryReport& report, const Job& asked, const Device& device,
                        bool in_one_process) {
  if (const auto* memory = dynamic_cast<const OwnMemory*>(&device)) {
    return check_device(report, asked, device, *memory, in_one_process);
  }
  // All arenas together: each alone might fit, and the run be refused with the others touched already.
  int64_t wanted = 0;
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const auto bytes = static_cast<int64_t>(report.ranks[rank].device.bytes() + report.host(rank));
    wanted = in_one_process ? wanted + bytes * report.replicas : std::max(wanted, bytes);
  }
  const cpu::AvailableMemory available = cpu::available_memory();
  if (wanted <= static_cast<int64_t>(available.bytes)) return;
  throw MemoryLimitError(fmt::format(
      "the run needs {:.3f} GiB ({} bytes), but only {:.3f} GiB ({} bytes) are available ({}); {} (`penstock "
      "plan --memory` shows every piece)",
      gibibytes(wanted), wanted, gibibytes(static_cast<int64_t>(available.bytes)), available.bytes,
      available.source, memory_advice(asked)));
}

}  // namespace

std::optional<int64_t> stated_memory_limit(const Job& job) {
  if (job.parallel.memory_limit_gib <= 0) return std::nullopt;
  return std::max<int64_t>(1, static_cast<int64_t>(job.parallel.memory_limit_gib * (1 << 30)));
}

int64_t arena_limit(const Job& job, int64_t limit) {
  return std::max<int64_t>(1, limit - static_cast<int64_t>(host_batch_bytes(job) + outside_reserve));
}

int64_t device_memory_limit(const Job& job, const Device& device, int64_t ranks_here) {
  if (const std::optional<int64_t> stated = stated_memory_limit(job)) return arena_limit(job, *stated);
  if (const auto* memory = dynamic_cast<const OwnMemory*>(&device)) {
    const DeviceMemory left = memory->memory_left();
    const int64_t share = static_cast<int64_t>(left.bytes) / ranks_sharing(job, left, ranks_here);
    return std::max<int64_t>(1, share - static_cast<int64_t>(gpu_reserve));
  }
  // What is available is what nobody holds: the program is in memory already.
  const int64_t share = static_cast<int64_t>(cpu::available_memory().bytes) / ranks_here;
  return std::max<int64_t>(1, share - static_cast<int64_t>(host_batch_bytes(job)));
}

std::string memory_advice(const Job& asked) {
  std::vector<std::string> advice;
  if (asked.batch.micro > 1) advice.push_back(fmt::format("lower batch.micro (it is {})", asked.batch.micro));
  const bool fixed = !asked.recompute.stages.empty() || asked.recompute.mode != RecomputeMode::automatic;
  const bool least = asked.recompute.stages.empty() && asked.recompute.mode == RecomputeMode::full;
  if (fixed && !least) advice.emplace_back("set recompute.mode = \"auto\"");
  if (asked.parallel.pipeline > 1 && asked.parallel.partition != PartitionMethod::measured)
    advice.emplace_back("set parallel.partition = \"measured\", which cuts within the limit");
  if (asked.parallel.pipeline > 1 && asked.parallel.schedule != "auto")
    advice.emplace_back("set parallel.schedule = \"auto\"");
  if (saves_in_background(asked)) advice.emplace_back("set checkpoint.background = false");
  advice.emplace_back("take more pipeline ranks");
  advice.emplace_back("make the model smaller");
  if (asked.parallel.memory_limit_gib > 0) advice.emplace_back("raise the limit");
  const std::string last = advice.back();
  advice.pop_back();
  return fmt::format("{}, or {}", fmt::join(advice, ", "), last);
}

void check_memory_limit(const MemoryReport& report, const Job& asked, const Device& device,
                        bool in_one_process) {
  const std::optional<int64_t> limit = stated_memory_limit(asked);
  if (!limit) return check_this_machine(report, asked, device, in_one_process);
  std::string ranks;
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const auto needed = static_cast<int64_t>(report.total(rank));
    if (needed <= *limit) continue;
    ranks += fmt::format("\n  pipeline rank {} needs {:.3f} GiB ({} bytes): {:.1f} MiB too much", rank,
                         gibibytes(needed), needed, mebibytes(needed - *limit));
  }
  if (ranks.empty()) return;
  throw MemoryLimitError(
      fmt::format("parallel.memory_limit_gib = {:g} ({} bytes) is too little:{}\n{:.0f} MiB of each are "
                  "reserved for what lies outside the arenas. To fit, {} (`penstock plan --memory` shows "
                  "every piece)",
                  asked.parallel.memory_limit_gib, *limit, ranks,
                  mebibytes(static_cast<int64_t>(outside_reserve)), memory_advice(asked)));
}

void check_room_beside(const MemoryReport& running, const MemoryReport& next, const Job& asked,
                       const Device& device, bool in_one_process) {
  const std::optional<int64_t> limit = stated_memory_limit(asked);
  for (size_t rank = 0; limit && rank < next.ranks.size(); ++rank) {
    const auto held = static_cast<int64_t>(running.ranks[rank].device.bytes() + running.ranks[rank].snapshot);
    const auto needed = static_cast<int64_t>(next.total(rank));
    if (held + needed <= *limit) continue;
    throw MemoryLimitError(fmt::format(
        "both arrangements do not fit on pipeline rank {} while units move: {} bytes are held and {} needed "
        "beside them, {} allowed (parallel.memory_limit_gib = {:g})",
        rank, held, needed, *limit, asked.parallel.memory_limit_gib));
  }
  // What the machine has left is beside what runs.
  if (!limit) check_this_machine(next, asked, device, in_one_process);
}

std::vector<int64_t> room_beside(const MemoryReport& running, const Job& job, const Device& device) {
  std::vector<int64_t> room;
  const bool stated = stated_memory_limit(job).has_value();
  const auto ranks = static_cast<int64_t>(running.ranks.size()) * running.replicas;
  for (const RankMemory& rank : running.ranks) {
    const int64_t held = stated ? static_cast<int64_t>(rank.device.bytes() + rank.snapshot) : 0;
    room.push_back(std::max<int64_t>(1, device_memory_limit(job, device, ranks) - held));
  }
  return room;
}

std::string outside_warning(const MemoryReport& report, const Job& job, int64_t ranks_here) {
  const auto held = static_cast<int64_t>(report.outside);
  const int64_t reserved = static_cast<int64_t>(outside_reserve) * ranks_here;
  if (!stated_memory_limit(job) || held <= reserved) return "";
  return fmt::format(
      "this process holds {:.1f} MiB outside its arenas; parallel.memory_limit_gib counts {:.1f} MiB for "
      "that: lower it by {:.3f} if the limit is a hard one",
      mebibytes(held), mebibytes(reserved), gibibytes((held - reserved) / ranks_here));
}

}  // namespace penstock
