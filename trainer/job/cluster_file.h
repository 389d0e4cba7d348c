#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "trainer/job/cluster.h"

namespace penstock {

/// Reads a cluster file (TOML), as strictly as a job file: JobError with every problem, its line and column.
Cluster read_cluster(const std::filesystem::path& file);
/// The same of a text in memory; `name` stands for the file in messages.
Cluster parse_cluster(std::string_view text, const std::string& name);

/// Its keys as Markdown tables, from their own descriptions.
std::string cluster_file_keys();

}  // namespace penstock
