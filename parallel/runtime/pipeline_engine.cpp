#include "parallel/runtime/pipeline_engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/boundary.h"
#include "model/memory_plan.h"
#include "parallel/schedule/forward_only.h"

namespace penstock::runtime {

using model::Pass;
using model::SideBand;
using schedule::BufferPool;

namespace {

model::RankConfig config_of(const PipelinePlan& plan, int world_rank) {
  model::RankConfig config = plan.ranks[static_cast<size_t>(plan.topology.place(world_rank).pipeline)];
  if (config.shard.count > 1) config.shard.member = plan.member(world_rank);
  return config;
}

}  // namespace

PipelineEngine::PipelineEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan)
    : PipelineEngine(device, math, world, plan,
                     make_communicators(world, plan.topology, plan.training.schedule.copies,
                                        tied_exchanges(plan.training.schedule))) {}

PipelineEngine::PipelineEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan,
                               Communicators communicators)
    : device_(device),
      world_(world),
      plan_(std::move(plan)),
      place_(plan_.topology.place(world.rank())),
      communicators_(std::move(communicators)),
      rank_(device, math, config_of(plan_, world.rank())),
      training_(device, plan_.training, place_.pipeline),
      executor_(device, executor_parts()) {
  if (plan_.reduction.members() > 1)
    reducer_ = std::make_unique<GradientReducer>(rank_, *communicators_.replicas, plan_.reduction);
  if (plan_.reduction.shards() > 1)
    gatherer_ = std::make_unique<ParameterGatherer>(rank_, *communicators_.replicas);
  const int64_t elements = agreement_elements(rank_.config(), plan_.topology.replicas());
  agreement_ = rank_.memory().claim(ArenaTag::communication, "agreement", DType::fp64, Shape{elements});
  const int64_t sums = rank_.optimizer().sums().elements();
  agreed_losses_ = agreement_.rows(sums, elements - sums);
  for (const model::PlannedAllocation& piece : rank_.config().runtime_memory) {
    if (piece.name != "generation.logits") continue;
    const Shape shape{rank_.config().model.vocab_size};
    logits_ = rank_.memory().claim(piece.tag, piece.name, DType::fp32, shape);
  }
  reserve_host_memory();
  if (plan_.graphs) use_graphs();
  if (plan_.overlaps()) use_two_versions();
  for (std::vector<Stamp>& stamps : stamps_) stamps.resize(training_.steps().size());
  abort_.emplace(world);
}

PipelineEngine::~PipelineEngine() = default;

void PipelineEngine::reserve_host_memory() {
  const auto losses = static_cast<size_t>(agreed_losses_.elements());
  const size_t logits = logits_ ? static_cast<size_t>(logits_.elements()) : 0;
  const size_t scalars = aligned(sizeof(math::StepScalars));
  const size_t doubles = aligned((1 + losses) * sizeof(double));
  const size_t told = scalars + doubles;
  host_memory_ = device_.create_host_memory("what a step tells its host",
                                            told_.size() * told + doubles + logits * sizeof(float));
  char* begin = host_memory_->as<char>();
  for (Told& each : told_) {
    each.scalars = reinterpret_cast<math::StepScalars*>(begin);
    each.losses = {reinterpret_cast<double*>(begin + scalars), losses};
    begin += told;
  }
  host_sum_ = reinterpret_cast<double*>(begin);
  host_losses_ = {host_sum_ + 1, losses};
  host_logits_ = {reinterpret_cast<float*>(begin + doubles), logits};
}

size_t PipelineEngine::index_of(int stage) const {
  const auto& held = rank_.config().stages;
  const int begin = plan_.first_unit(stage);
  const auto found = std::find_if(held.begin(), held.end(),
                                  [begin](const model::StageConfig& each) { return each.begin == begin; });
  return static_cast<size_t>(found - held.begin());
}

Communicators PipelineEngine::communicators_beside(const PipelinePlan& plan) const {
  const schedule::Schedule& schedule = plan.training.schedule;
  return runtime::communicators_beside(world_, plan.topology, communicators_, schedule.copies,
                                       tied_exchanges(schedule));
}

ExecutorParts PipelineEngine::executor_parts() {
  ExecutorParts parts;
  const model::RankConfig& config = rank_.config();
  for (int stage = 0; stage < plan_.stages(); ++stage) {
    const ReductionOptions& reduction = plan_.reduction;
    stages_.push_back(owns(stage)
                          ? std::make_unique<ModelStage>(rank_, index_of(stage), reduction.windows,
                                                         reduction.members() > 1, reduction.shards() > 1)
                          : nullptr);
    parts.stages.push_back(stages_.back().get());
  }
  const auto pool = [&](BufferPool at) -> std::vector<Tensor>& {
    return parts.buffers[static_cast<size_t>(at)];
  };
  // The rank's stages share the buffers of what they hand on: any of them can name them.
  for (size_t at = 0; at < rank_.stages(); ++at) {
    const model::Stage& stage = rank_.stage(at);
    std::vector<Tensor>& outputs = pool(BufferPool::activation_out);
    if (outputs.empty() && !stage.has_head()) {
      for (int i = 0; i < config.output_buffers; ++i) outputs.push_back(stage.output(i));
    }
    std::vector<Tensor>& d_inputs = pool(BufferPool::gradient_out);
    if (d_inputs.empty() && !stage.has_embedding() && !config.forward_only) {
      for (int i = 0; i < config.d_input_buffers; ++i) d_inputs.push_back(stage.d_input(i));
    }
  }
  const model::BoundaryTensor hidden = model::boundary(config).front();
  for (const model::PlannedAllocation& piece : config.runtime_memory) {
    if (piece.name != "boundary.input" && piece.name != "boundary.d_output") continue;
    auto* memory = static_cast<char*>(rank_.memory().claim(piece.tag, piece.name, piece.bytes));
    auto& buffers =
        pool(piece.name == "boundary.input" ? BufferPool::activation_in : BufferPool::gradient_in);
    for (size_t offset = 0; offset < piece.bytes; offset += model::boundary_bytes(config))
      buffers.emplace_back(memory + offset, hidden.dtype, hidden.shape);
    if (!buffers.empty()) arrival_ = buffers.front();
  }
  parts.pipeline = communicators_.pipeline.get();
  parts.operations = this;
  if (!plan_.overlaps()) return parts;
  parts.before = [this](Stream& /*at*/, const schedule::Instruction& instruction) { select(instruction); };
  parts.after = [this](Stream& at, const schedule::Instruction& instruction) {
    if (under_way_.open) ends_->mark(at, instruction);
  };
  return parts;
}

void PipelineEngine::use_graphs() {
  const Tensor losses =
      rank_.memory().claim(ArenaTag::workspace, "graphs.losses", DType::fp64, Shape{model::loss_terms});
  auto* graphs = dynamic_cast<WorkGraphs*>(&device_);
  if (graphs == nullptr) return;  // the processor has none
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    if (stages_[stage]) stages_[stage]->use_graphs(*graphs, static_cast<int>(stage), losses);
  }
}

std::string PipelineEngine::take_graph_note() {
  std::string note;
  for (const auto& stage : stages_) {
    if (note.empty() && stage && stage->graphs() != nullptr) note = stage->graphs()->take_note();
  }
  return note;
}

int64_t PipelineEngine::captured_graphs() const {
  int64_t count = 0;
  for (const auto& stage : stages_) {
    if (stage && stage->graphs() != nullptr) count += stage->graphs()->captured();
  }
  return count;
}

void PipelineEngine::serve(std::span<const SideBand> micro_batches, Pass pass) {
  for (const auto& stage : stages_) {
    if (stage) stage->serve(micro_batches, pass);
  }
}

void PipelineEngine::start_step(const model::StepInputs& inputs, std::span<const SideBand> micro_batches,
                                const UpdateRule& rule) {
  if (micro_batches.size() != static_cast<size_t>(training_.micro_batches())) {
    throw UsageError(fmt::format("a step of {} micro-batches in a pipeline whose schedule has {}",
                                 micro_batches.size(), training_.micro_batches()));
  }
  if (rank_.config().forward_only) throw UsageError("a step of a pipeline whose plan is for forwards alone");
  if (plan_.overlaps()) {
    if (rule.held || rule.loss_limit < std::numeric_limits<double>::infinity())
      throw UsageError("a step that overlaps with the next is neither held nor judged by its loss");
    return start_over(inputs, micro_batches);
  }
  rule_ = rule;
  target_tokens_ = inputs.target_tokens;
  guarded([&] {
    serve(micro_batches, Pass::training);
    rank_.optimizer().begin(stream(), inputs);
    rank_.zero_losses(stream());
    executor_.run(training_, stamps_[inputs.step % kept_steps]);
  });
}

void PipelineEngine::gather_parameters(Stream& at, const schedule::Action& action) {
  if (rank_.parameters().gathered()) return;
  const int begin = plan_.first_unit(action.stage);
  const int end = begin + plan_.unit_count(action.stage);
  for (int unit = begin; unit < end; ++unit) {
    gatherer_->gather(at, unit);
    stages_[static_cast<size_t>(action.stage)]->gathered(at, unit);
  }
  // There it stands right behind the update, and the rank has one stage.
  if (plan_.overlaps()) rank_.parameters().set_gathered(true);
}

// In the program's order, in which every member gathers. The earlier version of the weights is a copy of what
// was gathered, unless there was no update yet.
void PipelineEngine::gather_parameters() {
  if (!gatherer_ || rank_.parameters().gathered()) return;
  const auto& steps = training_.steps();
  for (size_t i = steps.size() - training_.gathers(); i < steps.size(); ++i) {
    const int stage = steps[i].instruction.action.stage;
    const int begin = plan_.first_unit(stage);
    for (int unit = begin; unit < begin + plan_.unit_count(stage); ++unit) {
      for (int version = 0; version < rank_.config().weight_versions; ++version)
        gatherer_->gather(stream(), unit, static_cast<size_t>(version));
    }
  }
  rank_.parameters().set_gathered(true);
}

void PipelineEngine::reduce_gradients(Stream& at, const schedule::Action& action, bool last) {
  const auto place = static_cast<size_t>(action.stage);
  const int begin = plan_.first_unit(action.stage);
  const int end = begin + plan_.unit_count(action.stage);
  if (last) {
    reducer_->reduce(at, *stages_[place], begin, end);
  } else {
    reducer_->reduce_window(at, *stages_[place], begin, end, action);
  }
}

void PipelineEngine::sum_tied(Stream& at) {
  model::OptimizerStep& optimizer = rank_.optimizer();
  if (communicators_.tied && optimizer.sent_tied_gradient()) {
    const int other = 1 - communicators_.tied->rank();
    communicators_.tied->exchange(at, {transport::send_to(other, optimizer.sent_tied_gradient()),
                                       transport::receive_from(other, optimizer.received_tied_gradient())});
  }
  optimizer.add_tied(at);
}

// Every entry of the agreement is given by one rank and 0 on all others, so that its sum over the ranks is
// exact in any order: squares by the owners of replica 0 (and the first copy), losses by the rank of the head
// that each micro-batch of a replica passed. It runs
// on the compute stream: if anything failed there, it is dropped, the world stops, and no rank updates.
void PipelineEngine::optimizer_step(Stream& at) {
  if (plan_.overlaps()) {
    update(at);
    ++under_way_.updates;
    return;
  }
  agree(at);
  if (rule_.loss_limit < std::numeric_limits<double>::infinity()) judge_loss(at);
  if (!rule_.held) update(at);
}

void PipelineEngine::agree(Stream& at) {
  model::OptimizerStep& optimizer = rank_.optimizer();
  const auto step = plan_.overlaps() ? rank_.selected_step() : 0;
  optimizer.squares(at);
  const Tensor blocks = optimizer.block_sums();
  at.stamp(&told_[step].offered);
  if (blocks) {
    communicators_.replicas->all_reduce(at, blocks, transport::Reduction::sum);
    optimizer.add_blocks(at);
  }
  at.fill_zero(agreement_.data, agreement_.bytes());
  const Tensor sums = optimizer.sums();
  const Tensor squares = agreement_.rows(0, sums.elements());
  if (place_.replica == 0) at.copy(squares.data, sums.data, sums.bytes());
  if (holds_last()) {
    const Tensor losses = rank_.losses();
    const Tensor ours = agreed_losses_.rows(place_.replica * losses.elements(), losses.elements());
    at.copy(ours.data, losses.data, losses.bytes());
  }
  if (world_.size() > 1) communicators_.all->all_reduce(at, agreement_, transport::Reduction::sum);
  at.stamp(&told_[step].agreed);
  at.copy(sums.data, squares.data, sums.bytes());
  optimizer.norm(at);
  if (plan_.overlaps()) copy_results(at, step);
}

// On the way, so that the host need not wait for the loss before the update is queued. The loss is what all
// ranks have agreed on: they come to the same end.
void PipelineEngine::judge_loss(Stream& at) {
  copy_results(at, 0);
  at.host_task("loss judged", 0, [this] {
    if (!(mean_loss() <= rule_.loss_limit)) told_[0].scalars->apply = 0;
  });
  rank_.optimizer().overrule(at, told_[0].scalars);
}

double PipelineEngine::mean_loss() const {
  double sum = 0;
  for (const double loss : told_[0].losses) sum += loss;
  return sum / static_cast<double>(target_tokens_);
}

void PipelineEngine::update_held() {
  guarded([&] {
    update(stream());
    executor_.synchronize();
  });
}

void PipelineEngine::update(Stream& at) {
  if (held_for_ != nullptr) {
    held_update_ = under_way_.updates;
    at.stamp(&held_[0]);
    at.wait(*std::exchange(held_for_, nullptr));
    at.stamp(&held_[1]);
  }
  rank_.optimizer().update(at);
}

std::optional<double> PipelineEngine::held_seconds() const {
  if (held_for_ != nullptr) return std::nullopt;
  // A step that was finished has waited for the update of the step before.
  if (under_way_.open && held_update_ + 2 > under_way_.next) return std::nullopt;
  return held_[1] - held_[0];
}

void PipelineEngine::copy_results(Stream& at, size_t step) {
  const Told& told = told_[step];
  at.copy(told.losses.data(), agreed_losses_.data, agreed_losses_.bytes());
  at.copy(told.scalars, rank_.optimizer().scalars(), sizeof(*told.scalars));
}

model::StepResult PipelineEngine::result_of(size_t step) const {
  const Told& told = told_[step];
  model::StepResult result;
  for (const double loss : told.losses) result.loss_sum += loss;
  result.gradient_norm = told.scalars->gradient_norm;
  result.applied = told.scalars->apply != 0;
  return result;
}

model::StepResult PipelineEngine::finish_step() {
  if (plan_.overlaps()) return finish_over();
  guarded([&] {
    copy_results(stream(), 0);
    executor_.synchronize();
  });
  return result_of(0);
}

const StepList& PipelineEngine::evaluation_list(int micro_batches) {
  const auto found = evaluations_.find(micro_batches);
  if (found != evaluations_.end()) return found->second;
  const schedule::Program program = schedule::forward_only(plan_.training.schedule, micro_batches);
  return evaluations_.emplace(micro_batches, StepList(device_, program, place_.pipeline)).first->second;
}

void PipelineEngine::forward_only(std::span<const SideBand> micro_batches) {
  const StepList& list = evaluation_list(static_cast<int>(micro_batches.size()));
  evaluation_stamps_.resize(list.steps().size());
  serve(micro_batches, Pass::evaluation);
  gather_parameters();
  rank_.zero_losses(stream());
  executor_.run(list, evaluation_stamps_);
}

double PipelineEngine::evaluate(std::span<const SideBand> micro_batches) {
  double sum = 0;
  guarded([&] { sum = evaluate_unguarded(micro_batches); });
  return sum;
}

double PipelineEngine::evaluate_unguarded(std::span<const SideBand> micro_batches) {
  drain_unguarded();
  const auto group = static_cast<size_t>(rank_.config().micro_batches);
  *host_sum_ = 0;
  for (size_t first = 0; first < micro_batches.size(); first += group) {
    forward_only(micro_batches.subspan(first, std::min(group, micro_batches.size() - first)));
    executor_.synchronize();
    *host_sum_ += rank_.read(stream()).loss_sum;  // 0 where the head is not
  }
  Stream& at = stream();
  at.fill_zero(agreed_losses_.data, agreed_losses_.bytes());
  at.copy(agreed_losses_.as<double>() + place_.replica, host_sum_, sizeof(*host_sum_));
  if (world_.size() > 1) communicators_.all->all_reduce(at, agreed_losses_, transport::Reduction::sum);
  at.copy(host_losses_.data(), agreed_losses_.data, agreed_losses_.bytes());
  executor_.synchronize();
  double sum = 0;
  for (int replica = 0; replica < plan_.topology.replicas(); ++replica)
    sum += host_losses_[static_cast<size_t>(replica)];
  return sum;
}

std::span<const float> PipelineEngine::logits(const SideBand& micro_batch, int64_t row) {
  if (!logits_) throw UsageError("logits of a pipeline whose plan was not asked for them");
  guarded([&] {
    drain_unguarded();
    forward_only({&micro_batch, 1});
    Stream& at = stream();
    const int last = plan_.last_stage();
    if (owns(last)) {
      // The rank's stages stand in the order of the model: the last one holds the head.
      rank_.stage(rank_.stages() - 1).logits(at, {}, row, 1, logits_.view(Shape{1, logits_.elements()}));
    }
    if (communicators_.pipeline->size() > 1)
      communicators_.pipeline->broadcast(at, logits_, plan_.owner(last));
    at.copy(host_logits_.data(), logits_.data, logits_.bytes());
    executor_.synchronize();
  });
  return host_logits_;
}

}  // namespace penstock::runtime
