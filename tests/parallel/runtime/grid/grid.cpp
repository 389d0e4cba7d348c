#include "tests/parallel/runtime/grid/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "parallel/schedule/catalogue.h"
#include "tests/parallel/runtime/delayed.h"

namespace penstock::testing {

namespace {

bool takes(const schedule::ScheduleKind& kind, int ranks, int chunks, int micro_batches) {
  schedule::ScheduleOptions options;
  options.ranks = ranks;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return kind.refusal(options).empty();
}

std::vector<GridSchedule> make_schedules() {
  std::vector<GridSchedule> all;
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds()) {
    if (kind.min_chunks == kind.max_chunks) {
      all.push_back({kind.name, kind.min_chunks});
      continue;
    }
    for (int chunks = 2, taken = 0; taken < 2 && chunks <= kind.max_chunks; ++chunks) {
      if (!takes(kind, 4, chunks, 64)) continue;
      all.push_back({kind.name, chunks});
      ++taken;
    }
  }
  all.push_back({"1f1b", 1, 2});
  return all;
}

int micro_batches_of(const GridSchedule& schedule, int pipeline, Micro micro) {
  const schedule::ScheduleKind& kind = schedule::find_schedule_kind(schedule.name);
  int count = micro == Micro::few ? 1 : 2 * pipeline + 1;
  while (!takes(kind, pipeline, schedule.chunks, count)) ++count;
  return count;
}

// The fewest layers whose units (two a layer, embedding and head) fill the stages.
int64_t least_layers(int64_t stages) {
  return std::max<int64_t>(1, (stages - 1) / 2);
}

std::vector<int64_t> uneven_units(int64_t units, int64_t stages) {
  std::vector<int64_t> counts(static_cast<size_t>(stages), 1);
  std::mt19937_64 random(static_cast<uint64_t>(stages));
  for (int64_t rest = units - stages; rest > 0; --rest) ++counts[random() % counts.size()];
  return counts;
}

void cut_stages(Job& job, Cut cut, int64_t stages) {
  ParallelSection& parallel = job.request.parallel;
  int64_t& layers = job.request.common.model.layers;
  layers = cut == Cut::single ? least_layers(stages) : std::max<int64_t>(3, least_layers(stages) + 1);
  const int64_t units = 2 * layers + 2;
  if (cut == Cut::even) {
    parallel.partition = PartitionMethod::layers;
    return;
  }
  parallel.partition = PartitionMethod::units;
  if (cut == Cut::uneven) {
    parallel.partition_units = uneven_units(units, stages);
  } else {
    parallel.partition_units.assign(static_cast<size_t>(stages), 1);
    parallel.partition_units.back() += units - stages;
  }
}

void set_recompute(RecomputeSection& recompute, Recompute value, int64_t stages) {
  constexpr std::array modes{RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full};
  if (value != Recompute::mixed) {
    recompute.mode = modes[static_cast<size_t>(value)];
    return;
  }
  for (int64_t stage = 0; stage < stages; ++stage)
    recompute.stages.push_back(modes[static_cast<size_t>(stage + stages) % modes.size()]);
}

// Which pairs of values have met: a flag for each two axes and two values.
class Pairs {
 public:
  explicit Pairs(const std::vector<std::vector<int>>& values) {
    size_t offset = 0;
    for (size_t axis = 0; axis < values.size(); ++axis) {
      offsets_[axis] = offset;
      offset += static_cast<size_t>(values[axis].back() + 1);
    }
    values_ = offset;
    met_.assign(values_ * values_, false);
  }
  bool met(size_t axis, int value, size_t other, int other_value) const {
    return met_[at(axis, value) * values_ + at(other, other_value)];
  }
  void meet(const Point& point) {
    for (size_t axis = 0; axis < point.size(); ++axis) {
      for (size_t other = 0; other < point.size(); ++other)
        met_[at(axis, point[axis]) * values_ + at(other, point[other])] = true;
    }
  }

 private:
  size_t at(size_t axis, int value) const { return offsets_[axis] + static_cast<size_t>(value); }
  std::array<size_t, Axis::count> offsets_{};
  size_t values_ = 0;
  std::vector<bool> met_;
};

// The places, ascending, of what is so.
template <class Item, class Condition>
std::vector<int> places(const std::vector<Item>& all, const Condition& condition) {
  std::vector<int> found;
  for (size_t place = 0; place < all.size(); ++place)
    if (condition(all[place])) found.push_back(static_cast<int>(place));
  return found;
}

std::vector<int> allowed_places(Kind kind, const Allowed& allowed) {
  std::vector<int> found = grid_values(kind)[Axis::layout];
  found.erase(std::remove_if(found.begin(), found.end(),
                             [&](int place) { return !allowed(grid_layouts()[static_cast<size_t>(place)]); }),
              found.end());
  return found;
}

bool is_of(const GridSchedule& schedule, Kind kind) {
  const int copies = schedule::copies_of(schedule.name);
  const int versions = schedule::versions_of(schedule.name);
  switch (kind) {
    case Kind::one_copy:
      return copies == 1 && versions == 1;
    case Kind::two_copies:
      return copies == 2;
    case Kind::two_versions:
      return versions == 2;
    case Kind::narrow_wires:
      break;
  }
  // B in one and split, stages in two orders.
  const bool some = schedule.name == "1f1b" || schedule.name == "interleaved" || schedule.name == "zbv";
  return some && schedule.chunks <= 2 && schedule.slack == 0;
}

// For each axis not yet set, the value that meets most values which it has not met.
void complete(Point& point, std::array<bool, Axis::count> set, const std::vector<std::vector<int>>& values,
              const Pairs& pairs, std::mt19937_64& random) {
  for (size_t axis = 0; axis < point.size(); ++axis) {
    if (set[axis]) continue;
    int best = -1;
    const size_t first = random() % values[axis].size();
    for (size_t i = 0; i < values[axis].size(); ++i) {
      const int value = values[axis][(first + i) % values[axis].size()];
      int gain = 0;
      for (size_t other = 0; other < point.size(); ++other)
        gain += set[other] && !pairs.met(axis, value, other, point[other]) ? 1 : 0;
      if (gain <= best) continue;
      best = gain;
      point[axis] = value;
    }
    set[axis] = true;
  }
}

}  // namespace

const std::vector<GridSchedule>& grid_schedules() {
  static const std::vector<GridSchedule> all = make_schedules();
  return all;
}

const std::vector<GridLayout>& grid_layouts() {
  static const std::vector<GridLayout> all{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {8, 1}, {1, 2}, {2, 2},
                                           {3, 2}, {4, 2}, {1, 3}, {2, 3}, {3, 3}, {4, 3}};
  return all;
}

std::vector<std::vector<int>> grid_values(Kind kind) {
  constexpr Point sizes{0, 0, 4, 3, 2, 3, 2, 2, 2, 2, 2, 2, 2, 3, 3};
  std::vector<std::vector<int>> values(sizes.size());
  for (size_t axis = 0; axis < values.size(); ++axis) {
    values[axis].resize(static_cast<size_t>(sizes[axis]));
    std::iota(values[axis].begin(), values[axis].end(), 0);
  }
  const bool both = kind == Kind::two_copies;
  values[Axis::schedule] =
      places(grid_schedules(), [&](const GridSchedule& each) { return is_of(each, kind); });
  values[Axis::layout] =
      places(grid_layouts(), [&](const GridLayout& each) { return !both || each.pipeline % 2 == 0; });
  if (both || kind == Kind::two_versions) values[Axis::windows] = {0};
  // The bits of narrow wires depend on the cuts, and those of the others do not.
  if (kind == Kind::one_copy || kind == Kind::two_versions) values[Axis::wire] = values[Axis::sums] = {0};
  return values;
}

const GridSchedule& schedule_of(const Point& point) {
  return grid_schedules()[static_cast<size_t>(point[Axis::schedule])];
}

const GridLayout& layout_of(const Point& point) {
  return grid_layouts()[static_cast<size_t>(point[Axis::layout])];
}

std::string name_of(const Point& point) {
  const auto pick = [&](int axis, std::initializer_list<std::string_view> names) {
    return *(names.begin() + point[static_cast<size_t>(axis)]);
  };
  std::string schedule = schedule_of(point).name;
  std::replace(schedule.begin(), schedule.end(), '-', '_');
  return fmt::format(
      "{}{}_v{}_P{}_D{}_{}_{}_{}_{}_{}_{}_{}_{}_{}_{}_{}{}{}", schedule,
      schedule_of(point).slack > 0 ? "_slack" : "", schedule_of(point).chunks, layout_of(point).pipeline,
      layout_of(point).replicas, pick(Axis::family, {"gpt2", "llama"}),
      pick(Axis::compute, {"fp32", "bf16", "fp16"}),
      pick(Axis::recompute, {"keep", "selective", "full", "mixed"}),
      pick(Axis::cut, {"even", "uneven", "single"}), pick(Axis::micro, {"few", "many"}),
      pick(Axis::threads, {"thread", "threads"}), pick(Axis::streams, {"queued", "shuffled"}),
      pick(Axis::buffering, {"rendezvous", "buffered"}), pick(Axis::order, {"pipelinefirst", "datafirst"}),
      pick(Axis::windows, {"onesum", "sumsof2"}), pick(Axis::sharded, {"whole", "sharded"}),
      pick(Axis::wire, {"", "_bf16wire", "_fp16wire"}), pick(Axis::sums, {"", "_bf16sums", "_fp16sums"}));
}

Job job_of(const Point& point, int steps) {
  const auto [pipeline, replicas] = layout_of(point);
  const GridSchedule& schedule = schedule_of(point);
  const int64_t stages = int64_t{pipeline} * schedule.chunks;
  Job job =
      make_job(point[Axis::family] == 0 ? tiny_gpt2() : tiny_llama(), pipeline, schedule.name,
               schedule.chunks, micro_batches_of(schedule, pipeline, Micro{point[Axis::micro]}), replicas);
  job.steps = steps;
  job.request.parallel.warmup_slack = schedule.slack;
  constexpr std::array computes{DType::fp32, DType::bf16, DType::fp16};
  job.request.common.compute = computes[static_cast<size_t>(point[Axis::compute])];
  if (job.request.common.compute == DType::fp16) job.loss_scale = 1024;
  cut_stages(job, Cut{point[Axis::cut]}, stages);
  set_recompute(job.request.recompute, Recompute{point[Axis::recompute]}, stages);
  job.threads = 1 + point[Axis::threads];
  job.mode = point[Axis::streams] == 0 ? StreamMode::queued : StreamMode::shuffled;
  job.transport.buffered = point[Axis::buffering] == 1;
  job.request.parallel.reduce_every = point[Axis::windows] == 0 ? 0 : 2;
  job.request.parallel.sharded_optimizer = point[Axis::sharded] == 1;
  constexpr std::array narrow{DType::fp32, DType::bf16, DType::fp16};
  if (point[Axis::wire] > 0) job.request.common.wire = narrow[static_cast<size_t>(point[Axis::wire])];
  job.request.gradient_wire = narrow[static_cast<size_t>(point[Axis::sums])];
  if (point[Axis::order] == 1) {
    job.request.parallel.order = RankOrder::data_first;
    job.request.parallel.bucket_mib = 64;  // everything in one; make_job's buckets are tiny
  }
  return job;
}

Job reference_of(const Job& job) {
  const auto& common = job.request.common;
  const ParallelSection& parallel = job.request.parallel;
  const bool both = schedule::copies_of(parallel.schedule) == 2;
  const bool delays = schedule::versions_of(parallel.schedule) == 2;
  Job reference = both ? replicas_for_copies(job)
                       : make_job(common.model, 1, delays ? "2bw" : "1f1b", 1,
                                  static_cast<int>(common.micro_batches), static_cast<int>(parallel.data));
  reference.request.common.compute = common.compute;
  reference.loss_scale = job.loss_scale;
  // Without replicas the keys mean nothing, and one reference serves all.
  if (parallel.data > 1) reference.request.parallel.reduce_every = parallel.reduce_every;
  if (parallel.data > 1 || both) reference.request.gradient_wire = job.request.gradient_wire;
  if (common.wire) {
    reference.request.common.wire = common.wire;
    reference.request.parallel.schedule = "bfs";
    reference.request.parallel.chunks = parallel.pipeline * parallel.chunks;
    reference.request.parallel.partition = parallel.partition;
    reference.request.parallel.partition_units = parallel.partition_units;
  }
  reference.steps = job.steps;
  return reference;
}

RankTraining training_of(const Job& job) {
  if (schedule::versions_of(job.request.parallel.schedule) == 1) return train_rank;
  return job.steps > 2 ? overlapping({0}) : overlapping();
}

std::vector<Point> pairwise_points(Kind kind, const Allowed& allowed) {
  std::vector<std::vector<int>> values = grid_values(kind);
  values[Axis::layout] = allowed_places(kind, allowed);
  std::vector<Point> points;
  if (values[Axis::layout].empty()) return points;
  Pairs pairs(grid_values(kind));
  std::mt19937_64 random(1);
  for (size_t axis = 0; axis < values.size(); ++axis) {
    for (size_t other = axis + 1; other < values.size(); ++other) {
      for (const int value : values[axis]) {
        for (const int other_value : values[other]) {
          if (pairs.met(axis, value, other, other_value)) continue;
          Point point{};
          std::array<bool, Axis::count> set{};
          set[axis] = set[other] = true;
          point[axis] = value;
          point[other] = other_value;
          complete(point, set, values, pairs, random);
          pairs.meet(point);
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

std::vector<Point> all_points(const Allowed& allowed, bool every_cut) {
  std::vector<Point> points;
  std::mt19937_64 random(2);
  const std::vector<std::vector<int>> values = grid_values(Kind::one_copy);
  Point sizes{};
  for (size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis] = static_cast<int>(values[axis].size());
  for (const int layout : allowed_places(Kind::one_copy, allowed)) {
    Point counts = sizes;
    counts[Axis::layout] = 1;
    const size_t first_drawn = every_cut ? Axis::micro : Axis::cut;
    int total = 1;
    for (size_t axis = 0; axis < first_drawn; ++axis) total *= counts[axis];
    const int unsharded = total;
    const bool replicas = grid_layouts()[static_cast<size_t>(layout)].replicas > 1;
    if (replicas) total *= sizes[Axis::sharded];
    for (int index = 0; index < total; ++index) {
      Point point{};
      int rest = index;
      for (size_t axis = 0; axis < first_drawn; ++axis) {
        point[axis] = values[axis][static_cast<size_t>(rest % counts[axis])];
        rest /= counts[axis];
      }
      for (size_t axis = first_drawn; axis < point.size(); ++axis)
        point[axis] = values[axis][random() % values[axis].size()];
      point[Axis::layout] = layout;
      if (replicas) point[Axis::sharded] = index / unsharded;
      points.push_back(point);
    }
  }
  return points;
}

const Result& References::of(const Job& job) {
  const Job reference = reference_of(job);
  const auto& common = reference.request.common;
  const ParallelSection& parallel = reference.request.parallel;
  const std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(common.model.family), common.model.layers,
      name_of(common.compute), common.micro_batches, parallel.data, parallel.reduce_every, reference.steps,
      parallel.schedule, name_of(reference.request.gradient_wire), name_of(model::wire_dtype(common)),
      common.wire ? fmt::format("{} {} {}", static_cast<int>(parallel.partition), parallel.chunks,
                                fmt::join(parallel.partition_units, ","))
                  : "");
  const auto known = known_.find(key);
  return known != known_.end() ? known->second : known_.emplace(key, compute_(reference)).first->second;
}

Result run_reference(const Job& reference) {
  if (schedule::versions_of(reference.request.parallel.schedule) == 2) return train_delayed(reference);
  const bool alone = reference.request.parallel.data == 1 && reference.request.parallel.chunks == 1;
  return alone ? train_locally(reference) : train(reference);
}

void expect_part_of(const Result& mine, const Result& whole) {
  EXPECT_EQ(mine.losses, whole.losses);
  EXPECT_EQ(mine.norms, whole.norms);
  EXPECT_FALSE(mine.parameters.empty());
  for (const auto& [name, values] : mine.parameters) {
    const auto other = whole.parameters.find(name);
    ASSERT_NE(other, whole.parameters.end()) << name;
    ASSERT_EQ(values.size(), other->second.size()) << name;
    bool same = true;
    for (size_t i = 0; i < values.size(); ++i) {
      same =
          same && (std::isnan(values[i]) || std::memcmp(&values[i], &other->second[i], sizeof(float)) == 0);
    }
    EXPECT_TRUE(same) << name << " differs";
  }
}

}  // namespace penstock::testing
