#include "tests/parallel/runtime/delayed.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "tests/parallel/runtime/rank_backend.h"

namespace penstock::testing {

namespace {

std::vector<std::vector<float>> masters_of(const model::ParameterStore& store) {
  std::vector<std::vector<float>> masters;
  for (const model::Parameter& parameter : store.parameters()) {
    const auto* begin = parameter.master.as<float>();
    masters.emplace_back(begin, begin + parameter.master.elements());
  }
  return masters;
}

class Delayed {
 public:
  explicit Delayed(const Job& job)
      : job_(job),
        backend_(make_rank_backend({}, nullptr)),
        rank_(*backend_.device, backend_.math, config(job)) {
    stream_ = backend_.device->create_stream("compute", StreamUse::compute);
    rank_.initialise(*stream_);
    earlier_ = masters_of(rank_.parameters());
  }

  Result train() {
    Result result;
    for (int step = 0; step < job_.steps; ++step) {
      const std::vector<std::vector<float>> now = masters_of(rank_.parameters());
      put(earlier_);
      double loss = 0;
      const model::StepInputs inputs = inputs_of(job_, step);
      std::vector<std::vector<float>> sum;
      for (int replica = 0; replica < job_.request.parallel.data; ++replica)
        add(sum, gradients(inputs, batches_of(job_, step, replica), loss));
      put(now);
      for (size_t unit = 0; unit < sum.size(); ++unit) {
        const Tensor& values = rank_.parameters().unit_gradients()[unit].values;
        std::memcpy(values.data, sum[unit].data(), values.bytes());
      }
      rank_.optimizer().finish(*stream_);
      result.losses.push_back(loss / static_cast<double>(inputs.target_tokens));
      result.norms.push_back(rank_.read(*stream_).gradient_norm);
      earlier_ = now;
    }
    collect(rank_, result.parameters);
    return result;
  }

 private:
  static model::RankConfig config(const Job& job) {
    model::RankConfig made = job.request.common;
    made.stages = {model::whole_model(made.model, RecomputeMode::none)};
    return made;
  }

  void put(const std::vector<std::vector<float>>& masters) {
    size_t at = 0;
    for (const model::Parameter& parameter : rank_.parameters().parameters())
      std::memcpy(parameter.master.data, masters[at++].data(), parameter.master.bytes());
    rank_.parameters().refresh_compute(*stream_, rank_.math());
    stream_->synchronize();
  }

  std::vector<std::vector<float>> gradients(const model::StepInputs& inputs, std::vector<HostBatch> batches,
                                            double& loss) {
    const auto bands = bands_of(batches);
    rank_.optimizer().begin(*stream_, inputs);
    rank_.zero_losses(*stream_);
    for (size_t m = 0; m < bands.size(); ++m) {
      const auto micro_batch = static_cast<int64_t>(m);
      rank_.stage(0).forward(*stream_, {}, micro_batch, bands[m], model::Pass::training);
      rank_.stage(0).backward_input(*stream_, {}, micro_batch);
      rank_.stage(0).backward_weight(*stream_, {});
    }
    stream_->synchronize();
    for (size_t m = 0; m < bands.size(); ++m) loss += rank_.losses().as<double>()[m];
    std::vector<std::vector<float>> all;
    for (const auto& unit : rank_.parameters().unit_gradients()) {
      const auto* begin = unit.values.as<float>();
      all.emplace_back(begin, begin + unit.values.elements());
    }
    return all;
  }

  static void add(std::vector<std::vector<float>>& sum, const std::vector<std::vector<float>>& more) {
    if (sum.empty()) {
      sum = more;
      return;
    }
    for (size_t unit = 0; unit < sum.size(); ++unit) {
      for (size_t i = 0; i < sum[unit].size(); ++i) sum[unit][i] += more[unit][i];
    }
  }

  Job job_;
  RankBackend backend_;
  model::RankModel rank_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::vector<float>> earlier_;
};

Result train_overlapping(const Job& job, runtime::PipelineEngine& engine, const std::vector<int>& drained) {
  const auto drains = [&](int step) {
    return step + 1 == job.steps || std::count(drained.begin(), drained.end(), step) > 0;
  };
  Result mine;
  std::map<int, std::vector<HostBatch>> batches;
  std::map<int, std::vector<model::SideBand>> bands;
  const auto start = [&](int step) {
    batches[step] = batches_of(job, step, engine.place().replica);
    bands[step] = bands_of(batches[step], engine.holds_first(), engine.holds_last());
    engine.start_step(inputs_of(job, step), bands[step]);
  };
  for (int step = 0; step < job.steps; ++step) {
    if (engine.started_steps() == 0) start(step);
    if (!drains(step)) start(step + 1);
    const model::StepResult finished = engine.finish_step();
    EXPECT_TRUE(finished.applied);
    mine.losses.push_back(finished.loss_sum / static_cast<double>(inputs_of(job, step).target_tokens));
    mine.norms.push_back(finished.gradient_norm);
    batches.erase(step);
  }
  EXPECT_EQ(engine.rank().memory().unclaimed(), std::vector<std::string>{});
  collect(engine.rank(), mine.parameters);
  return mine;
}

}  // namespace

Result train_delayed(const Job& job) {
  return Delayed(job).train();
}

RankTraining overlapping(const std::vector<int>& drained) {
  return [drained](const Job& job, runtime::PipelineEngine& engine) {
    return train_overlapping(job, engine, drained);
  };
}

}  // namespace penstock::testing
