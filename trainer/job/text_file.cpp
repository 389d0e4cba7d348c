#include "trainer/job/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "trainer/job/problems.h"

namespace penstock {
namespace {

constexpr size_t kLargestFile = size_t{4} << 20;  // they have a few kilobytes; what is larger is another file

}  // namespace

std::string read_text_file(const std::filesystem::path& file, const std::string& what) {
  const std::string name = file.string();
  const auto refuse = [&](const std::string& reason) {
    throw JobError(fmt::format("{}: {}\n", name, reason), 1);
  };
  const auto unreadable = [&](int error) {
    refuse(fmt::format("cannot read the {}: {}", what, std::strerror(error)));
  };
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    refuse(fmt::format("expected a {}, found a folder{}", what,
                       what == "job file" ? "; a run's own job is `job.toml` in its folder" : ""));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(name.c_str(), "rbe"), &std::fclose);
  if (in == nullptr) unreadable(errno);
  std::string text;
  char block[16384];
  while (const size_t bytes = std::fread(block, 1, sizeof block, in.get())) {
    text.append(block, bytes);
    if (text.size() > kLargestFile)
      refuse(fmt::format("expected a {}, found more than {} MiB", what, kLargestFile >> 20));
  }
  if (std::ferror(in.get()) != 0) unreadable(errno);
  return text;
}

}  // namespace penstock
