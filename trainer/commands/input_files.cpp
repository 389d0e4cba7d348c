#include "trainer/commands/input_files.h"

#include <algorithm>
#include <cerrno>

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/byte_source.h"
#include "data/data_error.h"

namespace penstock::commands {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) {
    throw data::DataError(data::Fault{pattern,
                                      {},
                                      "no file of this name and none that this pattern matches",
                                      "a file, or a pattern of some",
                                      "check the path"});
  }
  if (result != 0) throw data::system_error(pattern, "look for files of this pattern", errno);
  std::sort(paths.begin(), paths.end());
  return paths;
}

InputFile input_file(const std::string& path) {
  struct stat status {};
  // A pipe may be opened only once: opening it to ask and closing it would end its writer.
  if (path == "-" ||
      (::stat(path.c_str(), &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))))
    return {path, std::nullopt, 0};
  const data::ByteSource source(path);
  constexpr int64_t second = 1'000'000'000;
  return {path, source.size(), status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec};
}

}  // namespace

std::vector<InputFile> input_files(const std::vector<std::string>& given) {
  std::vector<InputFile> files;
  for (const std::string& name : given) {
    const bool pattern = name.find_first_of("*?[") != std::string::npos && ::access(name.c_str(), F_OK) != 0;
    for (const std::string& path : pattern ? matches(name) : std::vector<std::string>{name})
      files.push_back(input_file(path));
  }
  const auto is_standard_input = [](const InputFile& file) { return file.path == "-"; };
  if (std::count_if(files.begin(), files.end(), is_standard_input) > 1) {
    throw data::DataError(data::Fault{
        "-", {}, "standard input given twice", "at most once, as it can be read only once", "give it once"});
  }
  return files;
}

std::optional<uint64_t> total_bytes(const std::vector<InputFile>& files) {
  uint64_t total = 0;
  for (const InputFile& file : files) {
    if (!file.bytes) return std::nullopt;
    total += *file.bytes;
  }
  return total;
}

}  // namespace penstock::commands
