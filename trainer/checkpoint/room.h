#pragma once

#include <cstdint>
#include <string>

namespace penstock::checkpoint {

/// Every rank, before the first step: SaveError unless this host sees the folder in which `attempt` was
/// taken, and may write there. A file system that other hosts write to may show it late: it is looked for for
/// 10 s.
void check_reachable(const std::string& checkpoints, uint64_t attempt);

/// Rank 0: SaveError with both numbers if the disk of `checkpoints` has not `bytes` free for one more
/// checkpoint; a warning with them if it has less than what is still to come until `keep_last` stand there
/// and one more is being written; else "".
std::string check_space(const std::string& checkpoints, uint64_t bytes, int keep_last);

}  // namespace penstock::checkpoint
