#include "trainer/finite_state.h"

#include <array>

#include <fmt/format.h>

namespace penstock {
namespace {

// How many values of these tensors are not finite.
class Counter {
 public:
  explicit Counter(runtime::PipelineEngine& engine)
      : rank_(engine.rank()), stream_(engine.stream()), count_(rank_.nonfinite_count()) {
    stream_.fill_zero(count_.data, count_.bytes());
  }
  void add(const Tensor& tensor) {
    if (!tensor) return;
    rank_.math().reduce->count_nonfinite(stream_, tensor.view(Shape{tensor.elements()}),
                                         count_.as<int64_t>());
  }
  int64_t count() {
    int64_t host = 0;
    stream_.copy(&host, count_.data, sizeof(host));
    stream_.synchronize();
    return host;
  }

 private:
  model::RankModel& rank_;
  Stream& stream_;
  Tensor count_;
};

std::string found_on(runtime::PipelineEngine& engine, int rank) {
  const auto& parameters = engine.rank().parameters().parameters();
  Counter all(engine);
  for (const model::Parameter& parameter : parameters) {
    if (parameter.shared) continue;
    for (const model::NamedState& state : model::lasting_state(parameter)) all.add(state.tensor);
  }
  const int64_t bad = all.count();
  if (bad == 0) return "";
  for (const model::Parameter& parameter : parameters) {
    if (parameter.shared) continue;
    for (const model::NamedState& state : model::lasting_state(parameter)) {
      Counter one(engine);
      one.add(state.tensor);
      const int64_t here = one.count();
      if (here == 0) continue;
      return fmt::format(
          "{} of the values of rank {} are NaN or infinite, first {} of {}{}; such weights are never saved, "
          "go "
          "on from the last checkpoint",
          bad, rank, here, parameter.spec.name, state.ending);
    }
  }
  return fmt::format("{} values of rank {} are NaN or infinite", bad, rank);
}

}  // namespace

std::string nonfinite_state(runtime::PipelineEngine& engine, transport::World& world) {
  const std::string found = found_on(engine, world.rank());
  std::array<int64_t, 1> first{found.empty() ? 0 : world.size() - world.rank()};
  world.all_reduce(first, transport::Reduction::maximum);
  return first[0] == 0 ? "" : world.broadcast(found, world.size() - static_cast<int>(first[0]));
}

}  // namespace penstock
