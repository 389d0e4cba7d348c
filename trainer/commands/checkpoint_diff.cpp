#include "trainer/commands/checkpoint_diff.h"

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/checkpoint_diff.h"
#include "trainer/commands/checkpoint_argument.h"
#include "trainer/commands/run_command.h"
#include "trainer/report/progress_bar.h"

namespace penstock::commands {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Comparison;
using checkpoint::index_text;
using checkpoint::OtherDifference;
using checkpoint::ValueDifference;
using nlohmann::ordered_json;

constexpr int they_differ = 1;  // what diff(1) answers

ordered_json as_json(const std::vector<OtherDifference>& differences) {
  ordered_json list = ordered_json::array();
  for (const OtherDifference& one : differences)
    list.push_back({{"name", one.name}, {"a", one.a}, {"b", one.b}});
  return list;
}

ordered_json as_json(const Checkpoint& a, const Checkpoint& b, const Comparison& comparison) {
  ordered_json values = ordered_json::array();
  for (const ValueDifference& one : comparison.values) {
    values.push_back({{"name", one.name},
                      {"elements", one.shape.elements()},
                      {"differing", one.differing},
                      {"first", one.first},
                      {"max_absolute", one.absolute},  // null: NaN or infinity
                      {"max_relative", one.relative}});
  }
  return {{"schema", 1},
          {"a", a.path()},
          {"b", b.path()},
          {"identical", comparison.identical()},
          {"tensors", comparison.tensors},
          {"bytes", comparison.bytes},
          {"values", std::move(values)},
          {"tensors_not_compared", as_json(comparison.others)},
          {"state", as_json(comparison.state)},
          {"arrangement", as_json(comparison.arrangement)}};
}

void print_values(const std::vector<ValueDifference>& values) {
  size_t width = std::string_view("tensor").size();
  for (const ValueDifference& one : values) width = std::max(width, one.name.size());
  fmt::print("  {:<{}}  {:>12}  {:>12}  {:>12}  {:>12}  first at\n", "tensor", width, "elements", "differing",
             "max abs", "max rel");
  for (const ValueDifference& one : values) {
    fmt::print("  {:<{}}  {:>12}  {:>12}  {:>12.4g}  {:>12.4g}  {}\n", one.name, width, one.shape.elements(),
               one.differing, one.absolute, one.relative, index_text(one.shape, one.first));
  }
}

void print(const std::vector<OtherDifference>& differences) {
  for (const OtherDifference& one : differences)
    fmt::print("  {}: {} in a, {} in b\n", one.name, one.a, one.b);
}

void print(const Checkpoint& a, const Checkpoint& b, const Comparison& comparison) {
  fmt::print("a: {}\nb: {}\n", a.path(), b.path());
  const std::string compared =
      fmt::format("{} tensors, {}", comparison.tensors,
                  report::format_amount(comparison.bytes, report::ProgressUnit::bytes, "B"));
  if (comparison.identical()) {
    fmt::print("identical: {}, and the state\n", compared);
  } else {
    fmt::print("different: {} of {}\n", comparison.values.size() + comparison.others.size(),
               fmt::format("{} tensors", comparison.tensors + comparison.others.size()));
    if (!comparison.values.empty()) print_values(comparison.values);
    print(comparison.others);
    print(comparison.state);
  }
  if (comparison.arrangement.empty()) return;
  fmt::print("how the runs are arranged, which changes no bit of the model:\n");
  print(comparison.arrangement);
}

}  // namespace

CLI::App* add_checkpoint_diff(CLI::App& parent, int& exit_code) {
  struct Arguments {
    std::string a;
    std::string b;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("diff", "Compare two checkpoints bit by bit, whatever ranks wrote them");
  command->add_option("a", arguments->a, "a checkpoint's folder, or a run's: its newest")
      ->required()
      ->type_name("A");
  command->add_option("b", arguments->b, "what it is compared with")->required()->type_name("B");
  command->add_flag("--json", arguments->json, "one JSON object on standard output");
  command->footer(
      "Exit code 0: identical, 1: different, 4: no usable checkpoint. What a bubble budget keeps of how a "
      "run is\n"
      "arranged is shown apart and makes no difference.\n"
      "Examples:\n"
      "  penstock checkpoint diff runs/one runs/pipeline\n"
      "  penstock checkpoint diff runs/one/checkpoints/step-00000300 runs/one/checkpoints/step-00000600");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      const Checkpoint a = open_checkpoint(arguments->a);
      const Checkpoint b = open_checkpoint(arguments->b);
      const Comparison comparison = checkpoint::compare(a, b);
      if (arguments->json) {
        fmt::print("{}\n", as_json(a, b, comparison).dump(2));
      } else {
        print(a, b, comparison);
      }
      return comparison.identical() ? 0 : they_differ;
    });
  });
  return command;
}

}  // namespace penstock::commands
