#include "trainer/hugging_face/output_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <regex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/file_writer.h"

namespace penstock::hugging_face {
namespace {

namespace fs = std::filesystem;

std::vector<fs::directory_entry> entries_of(const std::string& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(*at);
  }
  if (error) throw data::write_error(folder, "list the folder", error.value());
  return entries;
}

// The first thing in the folder that no export writes; "" where there is none.
std::string stranger_in(const std::vector<fs::directory_entry>& entries) {
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    std::string name = entry.path().filename().string();
    if (!is_export_name(name) || !fs::is_regular_file(entry.symlink_status(error))) return name;
  }
  return "";
}

void remove_export(const std::string& folder) {
  const std::vector<fs::directory_entry> entries = entries_of(folder);
  if (const std::string stranger = stranger_in(entries); !stranger.empty()) {
    throw data::WriteError(data::Fault{folder,
                                       {},
                                       stranger + ", which is not an exported model's",
                                       "a model's files alone",
                                       "name another folder, or delete this one"});
  }
  for (const fs::directory_entry& entry : entries) {
    if (::unlink(entry.path().c_str()) != 0)
      throw data::write_error(entry.path().string(), "delete it", errno);
  }
  if (::rmdir(folder.c_str()) != 0) throw data::write_error(folder, "delete the folder", errno);
}

bool exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

void check_target(const std::string& path, bool replace) {
  if (!exists(path)) return;
  if (!fs::is_directory(path))
    throw data::WriteError(data::Fault{path, {}, "a file", "a folder, or none yet", "name another"});
  const std::vector<fs::directory_entry> entries = entries_of(path);
  const std::string stranger = stranger_in(entries);
  if (entries.empty() || (replace && stranger.empty())) return;
  throw data::WriteError(data::Fault{
      path,
      {},
      stranger.empty() ? "an exported model"
                       : fmt::format("a folder that holds {}, which is not an exported model's", stranger),
      "no folder, or an empty one",
      stranger.empty() ? "name another, or replace it with --force" : "name another"});
}

// "out/" and "out" are one folder.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

bool is_export_name(const std::string& name) {
  static const std::regex names(
      R"((config\.json|generation_config\.json|tokenizer\.json|tokenizer_config\.json|model\.safetensors)"
      R"(|model\.safetensors\.index\.json|model-\d{5,}-of-\d{5,}\.safetensors)(\.partial)?)");
  return std::regex_match(name, names);
}

OutputFolder::OutputFolder(std::string path, bool replace)
    : path_(without_slash(std::move(path))), partial_(path_ + ".partial") {
  check_target(path_, replace);
  if (exists(partial_)) remove_export(partial_);
  std::error_code error;
  fs::create_directories(partial_, error);
  if (error) throw data::write_error(partial_, "make the folder", error.value());
}

OutputFolder::~OutputFolder() {
  if (!exists(partial_)) return;
  try {
    remove_export(partial_);
  } catch (const std::exception&) {
    return;  // the next export to this place removes it
  }
}

void OutputFolder::commit() {
  if (!exists(path_)) {
    data::rename_durably(partial_, path_);
    return;
  }
  check_target(path_, true);
  // Both names at once, so that there is a whole model at every moment; not every file system can.
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    data::sync_folder(fs::absolute(path_).parent_path().string());
    remove_export(partial_);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw data::write_error(partial_, "exchange it with " + path_, errno);
  remove_export(path_);
  data::rename_durably(partial_, path_);
}

}  // namespace penstock::hugging_face
