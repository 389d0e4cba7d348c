#include "trainer/commands/preparation_checks.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "data/data_error.h"
#include "data/document_reader.h"
#include "data/side_car.h"

namespace penstock::commands {
namespace {

using data::DataError;
using data::Fault;

// "2026-11-30 21:00:00.123456789 UTC", of ns since the epoch.
std::string moment(int64_t nanoseconds) {
  constexpr int64_t second = 1'000'000'000;
  const auto whole = static_cast<std::time_t>(nanoseconds / second);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", fmt::gmtime(whole), nanoseconds % second);
}

void check_inputs(const std::vector<InputFile>& before, const std::vector<InputFile>& inputs,
                  const std::string& state_path) {
  const auto refuse = [&](const std::string& file, const std::string& found, const std::string& expected) {
    throw DataError(Fault{file,
                          {},
                          found,
                          fmt::format("{} the preparation was left off ({})", expected, state_path),
                          "give the same texts to go on with it, or begin again with --restart"});
  };
  for (size_t at = 0; at < std::max(before.size(), inputs.size()); ++at) {
    if (at >= inputs.size()) refuse(before[at].path, "no such input", "it as one, as when");
    if (at >= before.size()) {
      refuse(inputs[at].path, fmt::format("it as input {}", at + 1),
             fmt::format("the {} inputs with which", before.size()));
    }
    const InputFile& then = before[at];
    const InputFile& now = inputs[at];
    if (now.path != then.path) {
      refuse(now.path, fmt::format("it as input {}", at + 1), fmt::format("{}, as when", then.path));
    }
    if (now.bytes != then.bytes) {
      refuse(now.path, fmt::format("{} bytes", now.bytes.value_or(0)),
             fmt::format("{}, as when", then.bytes.value_or(0)));
    }
    if (now.modified != then.modified) {
      refuse(now.path, "a file that was changed " + moment(now.modified),
             fmt::format("one that was changed {}, as when", moment(then.modified)));
    }
  }
}

}  // namespace

// A text that its own tokens would replace is gone.
void check_outputs(const std::vector<InputFile>& inputs, const std::string& prefix) {
  const std::string name = std::filesystem::path(prefix).filename().string();
  if (name.empty() || name == "." || name == "..") {
    throw DataError(Fault{
        prefix, {}, "no name for the token files", "a prefix such as data/book", "name it with --output"});
  }
  for (const std::string& begin : {prefix, prefix + "-validation"}) {
    for (const std::string& output : {begin + ".bin", begin + ".idx", data::side_car_path(begin + ".bin")}) {
      for (const InputFile& input : inputs) {
        std::error_code unknown;  // one that is not there yet is no input
        if (!std::filesystem::equivalent(output, input.path, unknown)) continue;
        throw DataError(Fault{output,
                              {},
                              "an input under the name of an output",
                              "another name for the token files",
                              "choose another --output"});
      }
    }
  }
}

// An option that no input heeds would be ignored in silence.
void check_options(const DataPrepareOptions& options, const std::vector<InputFile>& inputs) {
  const auto is_json = [&](const InputFile& input) {
    return options.json_lines || data::DocumentReader::has_json_name(input.path);
  };
  if (options.separator && std::all_of(inputs.begin(), inputs.end(), is_json)) {
    throw DataError(Fault{inputs.front().path,
                          {},
                          "JSON lines, a document each, as all inputs are",
                          "a text for --document-separator to be looked for in",
                          "leave --document-separator out"});
  }
  if (options.invalid && std::none_of(inputs.begin(), inputs.end(), is_json)) {
    throw DataError(Fault{inputs.front().path,
                          {},
                          "a text, as all inputs are, of which every byte is kept",
                          "JSON lines for --invalid to be about",
                          "leave --invalid out, or give --json-lines if they are"});
  }
}

void check_goes_on(const PreparationState& state, const nlohmann::json& request,
                   const std::vector<InputFile>& inputs, const std::string& state_path) {
  for (const auto& [key, value] : request.items()) {
    if (state.request.is_object() && state.request.value(key, nlohmann::json()) == value) continue;
    throw DataError(Fault{
        state_path,
        {},
        fmt::format("a preparation that was left off, with {} {}", key,
                    state.request.is_object() ? state.request.value(key, nlohmann::json()).dump() : "?"),
        value.dump(),
        "give the same command to go on with it, or begin again with --restart"});
  }
  check_inputs(state.inputs, inputs, state_path);
}

}  // namespace penstock::commands
