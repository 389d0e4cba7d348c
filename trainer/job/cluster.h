#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// [cluster]: how many ranks there are, and which of them are near each other.
struct ClusterShape {
  std::string name;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;

  bool operator==(const ClusterShape&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("name", name).required().not_empty().help("for people");
    v.key("nodes", nodes).required().between(1, 1 << 20).help("nodes");
    v.key("ranks_per_node", ranks_per_node).between(1, 4096).help("ranks on each");
  }
};

/// [device]: what computes for a rank.
struct ClusterDevice {
  std::string name;
  int64_t devices_per_rank = 1;
  double memory_gib = 0;  ///< of a device; 0: no limit
  double fp32_tflops = 0;
  double bf16_tflops = 0;
  double memory_gb_per_s = 0;
  double product_efficiency = 0.7;
  double memory_efficiency = 0.8;
  int64_t state_shards = 1;

  bool operator==(const ClusterDevice&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("name", name).required().not_empty().help("for people");
    v.key("devices_per_rank", devices_per_rank)
        .between(1, 4096)
        .help("devices that work as one rank (tensor parallel); their memory and rates add up");
    v.key("memory_gib", memory_gib).from_to(0.001, 1 << 20).word("unlimited", 0).help("of a device, GiB");
    v.key("fp32_tflops", fp32_tflops)
        .from_to(0.001, 1e6)
        .required()
        .help("of a device in fp32, 10^12 FLOP/s");
    v.key("bf16_tflops", bf16_tflops).from_to(0.001, 1e6).required().help("the same in bf16, dense");
    v.key("memory_gb_per_s", memory_gb_per_s)
        .from_to(0.001, 1e6)
        .required()
        .help("a device's memory, 10^9 bytes/s");
    v.key("product_efficiency", product_efficiency)
        .from_to(0.001, 1)
        .help("share of the FLOP/s that large products reach, and tensor-parallel messages leave");
    v.key("memory_efficiency", memory_efficiency)
        .from_to(0.001, 1)
        .help("share of the memory's rate that passes reach");
    v.key("state_shards", state_shards)
        .between(1, 1 << 20)
        .help("weights, gradients and moments are split over so many replicas (ZeRO)");
  }
};

/// [inside_node] and [between_nodes]: a message between two ranks.
struct ClusterLink {
  double latency_us = 5;
  double gb_per_s = 0;

  bool operator==(const ClusterLink&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("latency_us", latency_us).from_to(0, 1e9).help("until the first byte arrives, 10^-6 s");
    v.key("gb_per_s", gb_per_s)
        .from_to(1e-6, 1e6)
        .required()
        .help("of a rank while messages pass both ways, 10^9 bytes/s each way");
  }
};

/// A machine to plan for, as a cluster file describes it.
struct Cluster {
  ClusterShape cluster;
  ClusterDevice device;
  ClusterLink inside_node;
  ClusterLink between_nodes;

  bool operator==(const Cluster&) const = default;

  int64_t ranks() const { return cluster.nodes * cluster.ranks_per_node; }

  template <class Visitor>
  void describe(Visitor& v) {
    v.section("cluster", cluster);
    v.section("device", device);
    v.section("inside_node", inside_node);
    v.section("between_nodes", between_nodes);
  }
};

}  // namespace penstock
