// Units change their ranks: what they are between two steps goes from one engine's memory to another's.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/layout.h"
#include "model/rank_layout.h"
#include "parallel/runtime/pipeline_engine.h"

namespace penstock::runtime {

using model::Parameter;
using transport::Message;
using transport::TransferGroup;

namespace {

model::layout::Layout layout_of(const PipelinePlan& plan) {
  model::layout::Layout layout;
  for (int rank = 0; rank < plan.topology.ranks(); ++rank) {
    model::RankConfig config = plan.ranks[static_cast<size_t>(plan.topology.place(rank).pipeline)];
    if (config.shard.count > 1) config.shard.member = plan.member(rank);
    add_held(config, rank, layout);
  }
  return layout;
}

// A tied weight's two copies have one name; where both are on this rank, they are one.
std::map<std::string, const Parameter*> by_name(const model::ParameterStore& store) {
  std::map<std::string, const Parameter*> found;
  for (const Parameter& parameter : store.parameters()) {
    if (!parameter.shared) found[parameter.spec.name] = &parameter;
  }
  return found;
}

Tensor part(const Parameter& parameter, const Tensor& owned, const model::Slice& slice) {
  return owned.rows(slice.begin - parameter.owned.begin, slice.elements());
}

}  // namespace

int64_t PipelineEngine::take_over(PipelineEngine& from) {
  const auto ours = by_name(rank_.parameters());
  const auto theirs = by_name(from.rank_.parameters());
  // The same list on every rank, so that each posts its own messages in one global order: the first of them
  // that has not passed is always among those that both its ends have posted.
  std::vector<Message> messages;
  int64_t received = 0;
  guarded([&] {
    Stream& at = stream();
    from.executor_.synchronize();
    rank_.parameters().clear(at);
    rank_.load_constants(at);
    const int self = world_.rank();
    for (const model::layout::Move& move : model::layout::moves(layout_of(from.plan_), layout_of(plan_))) {
      const Parameter* source = move.source == self ? theirs.at(move.name) : nullptr;
      const Parameter* target = move.destination == self ? ours.at(move.name) : nullptr;
      if (source == nullptr && target == nullptr) continue;
      for (size_t i = 0; i < model::lasting_states; ++i) {
        Tensor out;
        Tensor in;
        if (source != nullptr) out = part(*source, model::lasting_state(*source)[i].tensor, move.slice);
        if (target != nullptr) in = part(*target, model::lasting_state(*target)[i].tensor, move.slice);
        if (source != nullptr && target != nullptr) {
          at.copy(in.data, out.data, in.bytes());
        } else if (source != nullptr) {
          messages.push_back(transport::send_to(move.destination, out));
        } else {
          messages.push_back(transport::receive_from(move.source, in));
          received += static_cast<int64_t>(in.bytes());
        }
      }
    }
    for (std::span<const Message> rest = messages; !rest.empty();) {
      const size_t count = std::min(rest.size(), TransferGroup::in_place);
      communicators_.all->exchange(at, rest.first(count));
      rest = rest.subspan(count);
    }
    rank_.parameters().refresh_compute(at, rank_.math());
    executor_.synchronize();
  });
  return received;
}

}  // namespace penstock::runtime
