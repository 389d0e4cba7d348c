#include "trainer/train_step.h"

#include <algorithm>
#include <string>

#include "model/learning_rate.h"
#include "trainer/checkpointing.h"
#include "trainer/corpus.h"
#include "trainer/validation.h"

namespace penstock {

BatchSet& TrainStep::read(int64_t step) {
  if (batches_.was_read(step)) return batches_.of(step);
  const auto tell = [&](bool accounted) {
    if (read_hook_) read_hook_({context_.world.rank(), step, accounted, *context_.engine});
  };
  BatchSet* set = nullptr;
  {
    const accounting::HostTimes::Doing doing(context_.host, accounting::Part::data);
    set = &batches_.of(step);
    tell(false);
  }
  tell(true);
  return *set;
}

void TrainStep::tell_hook(int64_t step, const Begun& begun, bool computed) {
  if (hook_)
    hook_({context_.world.rank(), step, begun.held ? 1 : 0, computed, *context_.engine, batches_.of(step)});
}

void TrainStep::start(int64_t step) {
  const Job& job = context_.job;
  BatchSet& set = read(step);
  Begun& begun = begun_[static_cast<size_t>(step % 2)];
  StepSummary& summary = begun.summary = {};
  summary.step = step + 1;
  summary.learning_rate = learning_rate(job.learning_rate, job.run.steps, summary.step);
  summary.tokens = target_tokens_of_all(job, context_.world, job.batch.global, set, set.bands().size(),
                                        context_.engine->place().pipeline == 0);
  summary.loss_scale = guard_.loss_scaler().scale();
  begun.inputs = {static_cast<uint64_t>(step), summary.learning_rate, summary.tokens, summary.loss_scale};
  runtime::PipelineEngine::UpdateRule rule = guard_.update_rule();
  rule.held = begun.held = check_.due(step);
  if (rule.held) check_.compute_first(begun.inputs);
  tell_hook(step, begun, false);
  context_.engine->start_step(begun.inputs, set.bands(), rule);
}

bool TrainStep::pauses_behind(int64_t step) const {
  return Validation::due(context_.job, step + 1) || Checkpointing::due(context_.job, step + 1);
}

StepSummary TrainStep::operator()(int64_t step, bool pauses) {
  runtime::PipelineEngine& engine = *context_.engine;
  const TimePoint start_time = engine.started_steps() > 0 ? last_ : std::chrono::steady_clock::now();
  context_.progress.begin_step(step + 1);
  if (engine.started_steps() == 0) start(step);
  int64_t next = step + 1;
  // While the device works.
  if (engine.plan().overlaps() && !pauses && !pauses_behind(step)) start(next++);
  if (next < context_.job.run.steps) read(next);
  accounting_.settle();
  const model::StepResult result = engine.finish_step();
  const Begun& begun = begun_[static_cast<size_t>(step % 2)];
  tell_hook(step, begun, true);
  if (const std::string note = engine.take_graph_note(); !note.empty()) context_.reports.warning(note);
  StepSummary summary = begun.summary;
  summary.loss = result.loss_sum / static_cast<double>(summary.tokens);
  summary.gradient_norm = result.gradient_norm;
  summary.applied = result.applied;
  if (begun.held && !check_.conclude(begun.inputs, result)) summary.applied = false;
  last_ = std::chrono::steady_clock::now();
  summary.seconds = std::chrono::duration<double>(last_ - start_time).count();
  context_.progress.end_step(summary.seconds);
  return summary;
}

}  // namespace penstock
