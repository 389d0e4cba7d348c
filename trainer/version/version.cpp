#include "trainer/version/version.h"

#include <fmt/format.h>

namespace penstock {

std::string version_text() {
  const BuildInfo& info = build_info();
  std::string out = fmt::format("penstock {} ({})\n", info.version, info.git_id);
  out += fmt::format("compiler: {}, {}{}{}\n", info.compiler, info.build_type,
                     info.sanitizers.empty() ? "" : ", ", info.sanitizers);
  out += fmt::format("CPU kernels: {}\n", info.cpu_target);
  out += fmt::format("CUDA: {}\n", info.cuda ? "yes" : "no");
  for (const auto& [name, version] : info.libraries) out += fmt::format("{}: {}\n", name, version);
  return out;
}

}  // namespace penstock
