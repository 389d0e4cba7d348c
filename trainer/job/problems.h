#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/job/exit_code.h"
#include "trainer/job/toml_node.h"

namespace penstock {

/// A job file or its `--set` arguments are wrong. what() holds every problem, ready to print.
class JobError : public std::runtime_error {
 public:
  JobError(const std::string& text, size_t problems) : std::runtime_error(text), problems_(problems) {}
  size_t problems() const { return problems_; }
  static constexpr ExitCode exit_code() { return ExitCode::usage; }

 private:
  size_t problems_;
};

/// Collects problems and shows each with its place, the offending line and a caret.
class Problems {
 public:
  /// `file_name` and `file_text`: source 0; `arguments`: the values of `--set`, sources 1, 2, …. `what` has
  /// the problems, in the words of their number.
  Problems(std::string file_name, std::string_view file_text, std::vector<std::string> arguments,
           std::string what = "job");

  /// A place of line 0 means the file as a whole. Repeated complaints about one place are kept in order.
  void add(Place place, std::string message);

  bool empty() const { return found_.empty(); }

  /// Every problem, in the order of places, the file's first; then their number.
  std::string text() const;

  /// Throws JobError if there is any problem.
  void throw_if_any() const;

 private:
  struct Problem {
    Place place;
    std::string message;
  };
  std::string show(const Problem& problem) const;

  std::string file_name_;
  std::string_view file_text_;
  std::vector<std::string> arguments_;
  std::string what_;
  std::vector<Problem> found_;
};

}  // namespace penstock
