#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// How units are cut into stages; `units`: the job lists the number of units of each stage (partition_units).
enum class PartitionMethod { measured, parameters, flops, layers, units };
inline constexpr std::array<std::pair<std::string_view, PartitionMethod>, 4> kPartitionMethodNames{
    {{"measured", PartitionMethod::measured},
     {"parameters", PartitionMethod::parameters},
     {"flops", PartitionMethod::flops},
     {"layers", PartitionMethod::layers}}};

enum class RankOrder { pipeline_first, data_first };
inline constexpr std::array<std::pair<std::string_view, RankOrder>, 2> kRankOrderNames{
    {{"pipeline-first", RankOrder::pipeline_first}, {"data-first", RankOrder::data_first}}};

enum class DeviceChoice { automatic, cpu, cuda };
inline constexpr std::array<std::pair<std::string_view, DeviceChoice>, 3> kDeviceChoiceNames{
    {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}};

enum class GradientSum { ordered, library };
inline constexpr std::array<std::pair<std::string_view, GradientSum>, 2> kGradientSumNames{
    {{"ordered", GradientSum::ordered}, {"library", GradientSum::library}}};

/// [parallel]: how the work lies on ranks. None of it changes a bit of the result, except data, reduce_every,
/// gradient_sum, and a schedule with two copies of the weights.
struct ParallelSection {
  int64_t pipeline = 1;
  int64_t data = 0;  ///< 0: not resolved yet
  std::string schedule = "1f1b";
  int64_t chunks = 1;        ///< 0: the planner chooses
  int64_t warmup_slack = 0;  ///< −1: the planner chooses
  PartitionMethod partition = PartitionMethod::measured;
  std::vector<int64_t> partition_units;
  double memory_limit_gib = 0.0;  ///< 0: automatic
  RankOrder order = RankOrder::pipeline_first;
  DeviceChoice device = DeviceChoice::automatic;
  int64_t threads = 1;
  bool share_devices = false;
  bool sharded_optimizer = false;
  double bucket_mib = 64.0;
  int64_t reduce_every = 0;
  GradientSum gradient_sum = GradientSum::ordered;

  bool operator==(const ParallelSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    constexpr int64_t kRanks = 1 << 20;
    v.key("pipeline", pipeline).between(1, kRanks).help("P, pipeline ranks");
    v.key("data", data).between(1, kRanks).word("auto", 0).help("D, replicas; auto: ranks / pipeline");
    v.key("schedule", schedule)
        .text_form("a schedule's name, \"auto\", or \"file:x.csv\"")
        .help("order of the actions");
    v.key("chunks", chunks)
        .between(1, 1024)
        .word("auto", 0)
        .derived("1 (2 for V schedules); auto where schedule is")
        .help("v, stages per rank");
    v.key("warmup_slack", warmup_slack)
        .between(0, kRanks)
        .word("auto", -1)
        .derived("0; auto where schedule is")
        .help("extra warm-up forwards (1f1b)");
    v.key("partition", partition)
        .one_of(kPartitionMethodNames)
        .or_list(partition_units, PartitionMethod::units, "a list of unit counts, one a stage")
        .help("by what stages are balanced");
    v.key("memory_limit_gib", memory_limit_gib)
        .above(0)
        .at_most(1 << 20)
        .word("auto", 0)
        .help(
            "of a rank, GiB: its arenas, its token buffers, and 64 MiB reserved for what lies outside them "
            "(program, libraries, mapped files)");
    v.key("order", order).one_of(kRankOrderNames).help("which neighbours are near");
    v.key("device", device).one_of(kDeviceChoiceNames).help("auto: cuda where there is one");
    v.key("threads", threads).between(1, 4096).help("CPU compute threads a rank");
    v.key("share_devices", share_devices).help("several ranks on one GPU");
    v.key("sharded_optimizer", sharded_optimizer)
        .help("moments and master weights split over replicas (ZeRO-1)");
    v.key("bucket_mib", bucket_mib).above(0).help("gradient buckets, MiB");
    v.key("reduce_every", reduce_every)
        .at_least(0)
        .help("replicas sum gradients every so many micro-batches; 0: once a step");
    v.key("gradient_sum", gradient_sum)
        .one_of(kGradientSumNames)
        .help("ordered: replica order, bitwise stable");
  }
};

}  // namespace penstock
