#include "trainer/step_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "model/memory_plan.h"
#include "trainer/report/chrome_trace.h"

namespace penstock {
namespace {

using report::ChromeTrace;
using runtime::Lane;
using runtime::Stamp;
using schedule::Instruction;
using schedule::InstructionKind;

// One rank's instructions of a step as events.
class RankEvents {
 public:
  RankEvents(const RankContext& context, const transport::ClockAlignment& clocks)
      : context_(context),
        clocks_(clocks),
        rank_(context.world.rank()),
        message_bytes_(model::boundary_bytes(context.engine->rank().config())) {
    const runtime::Topology& topology = context.engine->plan().topology;
    const runtime::Place& place = context.engine->place();
    std::string name = fmt::format("rank {}", rank_);
    if (topology.replicas() > 1)
      name += fmt::format(": replica {} of {}, pipeline rank {} of {}", place.replica, topology.replicas(),
                          place.pipeline, topology.pipeline());
    trace_.name_process(rank_, name);
    for (size_t lane = 0; lane < runtime::lane_count; ++lane)
      trace_.name_thread({rank_, static_cast<int>(lane)}, runtime::name_of(static_cast<Lane>(lane)));
  }

  void add(const Stamp& stamp) {
    const Instruction& at = *stamp.instruction;
    const auto lane = static_cast<size_t>(stamp.lane);
    // Viewers want slices apart and longer than nothing; times are rounded to nanoseconds.
    const int64_t begin = std::max(nanoseconds(stamp.start), ends_[lane]);
    const int64_t end = std::max(nanoseconds(stamp.end), begin + 1);
    ends_[lane] = end;
    const ChromeTrace::Track track{rank_, static_cast<int>(lane)};
    nlohmann::ordered_json details;
    if (at.kind != InstructionKind::optimizer_step) details["stage"] = at.action.stage;
    if (at.kind == InstructionKind::compute || at.is_transfer())
      details["micro_batch"] = at.action.micro_batch;
    if (at.is_transfer()) details["bytes"] = message_bytes_;
    if (at.peer >= 0) details["peer"] = world_rank(at.peer);
    details["enqueued"] = static_cast<double>(nanoseconds(stamp.enqueued)) / 1000;
    const char* category = at.kind == InstructionKind::compute ? "compute" : to_string(at.kind);
    trace_.slice(track, begin, end, in_words(at), category, details);
    if (at.kind == InstructionKind::send) trace_.arrow_begin(track, begin, in_words(at.action), arrow_id(at));
    if (at.kind == InstructionKind::receive)
      trace_.arrow_end(track, end - 1, in_words(at.action), arrow_id(at));
    if (at.kind == InstructionKind::compute) count_micro_batches(at.action.op, begin, end);
  }

  const std::string& text() const { return trace_.events(); }

 private:
  int64_t nanoseconds(double seconds) const { return std::llround(clocks_.to_rank_zero(seconds) * 1e9); }

  int world_rank(int pipeline_rank) const {
    const runtime::PipelineEngine& engine = *context_.engine;
    return engine.plan().topology.world_rank({pipeline_rank, engine.place().replica});
  }

  // Both ends of a message have the same place in the global order of their pipeline.
  int64_t arrow_id(const Instruction& at) const {
    const runtime::PipelineEngine& engine = *context_.engine;
    return int64_t{engine.place().replica} * engine.plan().training.orders + at.order;
  }

  // Activations are held from F to I (or B), what the weight gradient needs from I to W.
  void count_micro_batches(schedule::Op op, int64_t begin, int64_t end) {
    if (op == schedule::Op::forward) ++activations_;
    if (op == schedule::Op::backward_input) ++weight_gradients_;
    if (op == schedule::Op::forward || op == schedule::Op::backward_input) show_counts(begin);
    if (gives_input_gradient(op)) --activations_;
    if (op == schedule::Op::backward_weight) --weight_gradients_;
    if (op != schedule::Op::forward) show_counts(end);
  }

  void show_counts(int64_t at) {
    trace_.counter(rank_, at, "micro-batches held",
                   {{"activations", activations_}, {"weight gradients", weight_gradients_}});
  }

  const RankContext& context_;
  const transport::ClockAlignment& clocks_;
  const int rank_;
  const size_t message_bytes_;
  std::array<int64_t, runtime::lane_count> ends_{};
  int activations_ = 0;
  int weight_gradients_ = 0;
  ChromeTrace trace_;
};

}  // namespace

StepTrace::StepTrace(const RankContext& context, const RunPaths& paths, transport::ClockAlignment& clocks)
    : context_(context), paths_(paths), clocks_(clocks) {}

bool StepTrace::listed(int64_t step) const {
  const std::vector<int64_t>& steps = context_.job.trace.steps;
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

void StepTrace::act(const StepSummary& result, const Decision& decision) {
  const bool traced = wished_ || listed(result.step);
  wished_ = decision.trace;
  if (traced) {
    clocks_.measure();
    trace(result.step);
  } else if ((wished_ || listed(result.step + 1)) && !decision.stop) {
    clocks_.measure();  // the traced step lies between two measurements
  }
}

std::string StepTrace::events(int64_t step) const {
  RankEvents events(context_, clocks_);
  // The engine counts the steps before, the user those that are done.
  const runtime::PipelineEngine& engine = *context_.engine;
  const std::span<const Stamp> stamps = engine.stamps(static_cast<uint64_t>(step) - 1);
  std::vector<Stamp> in_time(stamps.begin(), stamps.end());
  if (engine.plan().overlaps()) {
    // The optimizer step and what is gathered after it, the last ones, stand behind actions of the next step.
    if (engine.started_steps() > 0) in_time.resize(engine.update_place());
    std::stable_sort(in_time.begin(), in_time.end(),
                     [](const Stamp& a, const Stamp& b) { return a.start < b.start; });
  }
  for (const Stamp& stamp : in_time) events.add(stamp);
  return events.text();
}

void StepTrace::trace(int64_t step) {
  transport::World& world = context_.world;
  const std::span<const Stamp> stamps = context_.engine->stamps(static_cast<uint64_t>(step) - 1);
  std::array<double, 1> error{stamps.empty() ? 0 : clocks_.error(stamps.front().start)};
  world.all_reduce(error, transport::Reduction::maximum);
  const std::vector<std::string> all = world.gather(events(step));
  if (!context_.leads()) return;
  write(step, ChromeTrace::file(all, {{"step", step},
                                      {"schedule", context_.job.parallel.schedule},
                                      {"clock_error_us", std::round(error[0] * 1e9) / 1000}}));
}

void StepTrace::write(int64_t step, const std::string& text) const {
  const std::string path = (paths_.trace() / fmt::format("step-{:08}.json", step)).string();
  try {
    std::error_code error;
    std::filesystem::create_directories(paths_.trace(), error);
    if (error) throw data::system_error(paths_.trace().string(), "create the folder", error.value());
    data::write_file(path, text);
  } catch (const data::DataError& error) {
    context_.reports.warning(fmt::format("no trace of step {}: {}", step, error.what()));
    return;
  }
  context_.reports.note(fmt::format("step {}: trace in {} (open it at https://ui.perfetto.dev)", step, path));
  context_.reports.event("trace", step, {{"file", path}});
}

}  // namespace penstock
