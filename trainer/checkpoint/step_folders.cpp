#include "trainer/checkpoint/step_folders.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock::checkpoint {
namespace {

namespace fs = std::filesystem;
using Kind = StepFolder::Kind;

constexpr std::string_view partial_ending = ".partial";  // data::FileWriter's

constexpr std::string_view prefix_of(Kind kind) {
  switch (kind) {
    case Kind::complete:
      return "step-";
    case Kind::temporary:
      return ".tmp-step-";
    case Kind::outgoing:
      return ".old-step-";
  }
  return "";
}

// Takes a decimal number off the front of `text`.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

bool is_ours(std::string_view name) {
  if (ends_with(name, partial_ending)) name.remove_suffix(partial_ending.size());
  return name == manifest_name || name == marker_name || is_shard_name(name);
}

std::vector<fs::directory_entry> entries_of(const std::string& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(*at);
  }
  if (error) throw data::system_error(folder, "list the folder", error.value());
  return entries;
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw data::system_error(path, "delete it", errno);
}

}  // namespace

std::string name_of(Kind kind, int64_t step, uint64_t attempt) {
  return kind == Kind::complete ? fmt::format("{}{:08}", prefix_of(kind), step)
                                : fmt::format("{}{:08}-{}", prefix_of(kind), step, attempt);
}

std::optional<StepFolder> parse_name(std::string_view name) {
  for (const Kind kind : {Kind::complete, Kind::temporary, Kind::outgoing}) {
    std::string_view rest = name;
    if (rest.substr(0, prefix_of(kind).size()) != prefix_of(kind)) continue;
    rest.remove_prefix(prefix_of(kind).size());
    const auto step = take_number<int64_t>(rest);
    uint64_t attempt = 0;
    if (kind != Kind::complete && !rest.empty()) {
      rest.remove_prefix(1);
      attempt = take_number<uint64_t>(rest).value_or(0);
    }
    // Only the one way of writing it: "step-7" or "step-+0000007" is somebody else's.
    if (step && *step >= 0 && name_of(kind, *step, attempt) == name)
      return StepFolder{kind, *step, attempt, {}};
  }
  return {};
}

std::vector<StepFolder> scan(const std::string& checkpoints) {
  std::vector<StepFolder> folders;
  std::error_code error;
  if (!fs::exists(checkpoints, error) && !error) return folders;
  for (const fs::directory_entry& entry : entries_of(checkpoints)) {
    auto folder = parse_name(entry.path().filename().string());
    if (!folder || !entry.is_directory(error)) continue;
    folder->path = entry.path().string();
    folders.push_back(std::move(*folder));
  }
  std::sort(folders.begin(), folders.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::tie(a.step, a.kind, a.attempt) < std::tie(b.step, b.kind, b.attempt);
  });
  return folders;
}

std::string shard_name(int index) {
  return fmt::format("shard-{:05}.safetensors", index);
}

bool is_shard_name(std::string_view name) {
  constexpr std::string_view beginning = "shard-";
  if (ends_with(name, partial_ending)) name.remove_suffix(partial_ending.size());
  if (name.substr(0, beginning.size()) != beginning) return false;
  std::string_view rest = name.substr(beginning.size());
  const auto index = take_number<int>(rest);
  return index && *index >= 0 && shard_name(*index) == name;
}

std::string remove_folder(const std::string& path) {
  std::error_code unknown;
  if (fs::is_symlink(path, unknown)) return fmt::format("{} is a symbolic link", path);
  const std::vector<fs::directory_entry> entries = entries_of(path);
  const bool marked = std::any_of(entries.begin(), entries.end(),
                                  [](const auto& entry) { return entry.path().filename() == marker_name; });
  if (!marked && !entries.empty()) return fmt::format("{} has no file {}", path, marker_name);
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    const std::string name = entry.path().filename().string();
    if (!is_ours(name) || !fs::is_regular_file(entry.symlink_status(error))) {
      return fmt::format("{} holds {}, which is not the run's", path, name);
    }
  }
  // The manifest first, so that a folder half deleted never looks like a checkpoint; the marker last, so that
  // the rest can still be recognised and deleted.
  const std::string folder = path + "/";
  remove_file(folder + std::string(manifest_name));
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename() != marker_name) remove_file(entry.path().string());
  }
  remove_file(folder + std::string(marker_name));
  if (::rmdir(path.c_str()) != 0) throw data::system_error(path, "delete the folder", errno);
  return "";
}

}  // namespace penstock::checkpoint
