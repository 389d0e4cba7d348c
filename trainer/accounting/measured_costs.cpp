#include "trainer/accounting/measured_costs.h"

#include <algorithm>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"
#include "trainer/accounting/median.h"

namespace penstock::accounting {

using schedule::InstructionKind;
using schedule::Op;

MeasuredCosts::MeasuredCosts(const schedule::Program& program, size_t steps)
    : program_(&program),
      stages_(static_cast<size_t>(program.schedule.stages())),
      links_(program.ranks.size() * program.ranks.size()),
      gradient_end_(stages_.size()) {
  if (program.schedule.copies > 1) both_.resize(static_cast<size_t>(program.schedule.blocks()));
  const auto samples = steps * static_cast<size_t>(program.schedule.all_micro_batches());
  for (Samples& stage : stages_) {
    for (std::vector<double>* values : {&stage.forward, &stage.input, &stage.weight, &stage.reduction})
      values->reserve(samples);
  }
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(program, found);
  if (!found.empty()) throw UsageError(found.front().text());
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const auto& list = program.ranks[rank].instructions;
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at].kind != InstructionKind::receive) continue;
      const int send = wiring.partner[static_cast<size_t>(wiring.first[rank]) + at];
      const auto source = static_cast<size_t>(wiring.rank_of(send));
      messages_.push_back({source, rank, static_cast<size_t>(send - wiring.first[source]), at});
    }
  }
  for (const Message& message : messages_) {
    std::vector<double>& link = links_[message.source * program.ranks.size() + message.destination];
    if (link.capacity() == 0) link.reserve(2 * samples * static_cast<size_t>(program.schedule.chunks));
  }
  optimizer_.reserve(steps * program.ranks.size());
  tied_.reserve(steps * program.ranks.size());
}

void MeasuredCosts::add(std::span<const RankTimes> ranks) {
  ++added_;
  tied_ready_ = tied_end_ = 0;
  for (Both& block : both_) block = {};
  for (size_t rank = 0; rank < ranks.size(); ++rank) add_rank(ranks[rank], rank);
  for (size_t block = 0; block < both_.size(); ++block)
    stages_[block].reduction.push_back(std::max(0.0, both_[block].end - both_[block].ready));
  if (tied_end_ > 0) tied_.push_back(std::max(0.0, tied_end_ - tied_ready_));
  for (const Message& message : messages_) {
    const InstructionTimes& sent = ranks[message.source].instructions[message.send];
    const InstructionTimes& received = ranks[message.destination].instructions[message.receive];
    links_[message.source * program_->ranks.size() + message.destination].push_back(
        std::max(0.0, received.end - std::max(sent.start, received.start)));
  }
}

void MeasuredCosts::add_rank(const RankTimes& times, size_t rank) {
  const auto& list = program_->ranks[rank].instructions;
  double last_end = 0;  // of the rank's actions
  for (size_t i = 0; i < list.size(); ++i) {
    const InstructionTimes& at = times.instructions[i];
    const auto stage = static_cast<size_t>(list[i].action.stage);
    switch (list[i].kind) {
      case InstructionKind::compute: {
        last_end = at.end;
        if (list[i].action.op != Op::forward) gradient_end_[stage] = at.end;
        const Op op = list[i].action.op;
        const double middle = op == Op::backward && at.middle != 0 ? at.middle : at.end;
        if (op == Op::forward) stages_[stage].forward.push_back(at.end - at.start);
        if (gives_input_gradient(op)) stages_[stage].input.push_back(middle - at.start);
        if (op == Op::backward) stages_[stage].weight.push_back(at.end - middle);
        if (op == Op::backward_weight) stages_[stage].weight.push_back(at.end - at.start);
        break;
      }
      case InstructionKind::reduce_gradients:
        // It is on its stream early, and waits there unit by unit. One that is not the last is of a half.
        // Two copies begin once the later one is there.
        if (!both_.empty()) {
          Both& block = both_[stage % both_.size()];
          block.ready = std::max({block.ready, at.start, gradient_end_[stage]});
          block.end = std::max(block.end, at.end);
          break;
        }
        stages_[stage].reduction.push_back((list[i].last ? 1 : 2) *
                                           std::max(0.0, at.end - std::max(at.start, gradient_end_[stage])));
        break;
      case InstructionKind::sum_tied:
        // Both owners begin once the later one is there.
        tied_ready_ = std::max({tied_ready_, at.start, last_end});
        tied_end_ = std::max(tied_end_, at.end);
        break;
      case InstructionKind::optimizer_step:
        if (program_->schedule.asynchronous) {  // it begins when all ranks have agreed
          optimizer_.push_back(times.optimizer_before.end - times.optimizer_before.start);
          break;
        }
        // Without the wait for the other ranks.
        optimizer_.push_back(times.agreed == 0 ? at.end - at.start
                                               : times.offered - at.start + at.end - times.agreed);
        break;
      default:
        break;
    }
  }
}

schedule::Costs MeasuredCosts::costs() const {
  if (added_ == 0) throw UsageError("costs of no step");
  schedule::Costs costs;
  costs.gradient_reduction.clear();
  for (const Samples& stage : stages_)
    costs.blocks.push_back({median(stage.forward), median(stage.input), median(stage.weight)});
  for (int block = 0; block < program_->schedule.blocks(); ++block)
    costs.gradient_reduction.push_back(median(stages_[static_cast<size_t>(block)].reduction));
  costs.links.clear();
  for (const std::vector<double>& link : links_) costs.links.push_back({0, median(link)});
  // All ranks end together: the slowest counts.
  if (!optimizer_.empty()) {
    const size_t ranks = optimizer_.size() / added_;
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> own;
      for (size_t at = rank; at < optimizer_.size(); at += ranks) own.push_back(optimizer_[at]);
      costs.optimizer_step = std::max(costs.optimizer_step, median(std::move(own)));
    }
  }
  costs.tied_sum = median(tied_);
  return costs;
}

}  // namespace penstock::accounting
