#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace penstock::run_view {

/// The recorded run of tests/trainer/run_view/fixtures.
inline std::filesystem::path small_run() {
  return std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/trainer/run_view/fixtures/small_run";
}

/// A run folder that a test may write, removed at its end.
class RunFolderCopy {
 public:
  /// Of the recorded run; or empty.
  explicit RunFolderCopy(bool recorded = true)
      : path_(std::filesystem::temp_directory_path() /
              ("penstock-run-" + std::to_string(::getpid()) + "-" + std::to_string(next()))) {
    std::filesystem::remove_all(path_);
    if (recorded) {
      std::filesystem::copy(small_run(), path_, std::filesystem::copy_options::recursive);
    } else {
      std::filesystem::create_directories(path_);
    }
  }
  ~RunFolderCopy() { std::filesystem::remove_all(path_); }
  RunFolderCopy(const RunFolderCopy&) = delete;
  RunFolderCopy& operator=(const RunFolderCopy&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string text(const std::string& file) const {
    std::ifstream in(path_ / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& file, std::string_view text) const {
    std::ofstream(path_ / file, std::ios::trunc) << text;
  }
  void append(const std::string& file, std::string_view text) const {
    std::ofstream(path_ / file, std::ios::app) << text;
  }
  void remove(const std::string& file) const { std::filesystem::remove_all(path_ / file); }

 private:
  static int next() {
    static int number = 0;
    return number++;
  }
  std::filesystem::path path_;
};

}  // namespace penstock::run_view
