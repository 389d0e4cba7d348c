#include "trainer/job/cluster_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/job/problems.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kRoot = PENSTOCK_SOURCE_DIR;

constexpr const char* kGood = R"([cluster]
name = "lab"
nodes = 2
ranks_per_node = 4
[device]
name = "chip"
fp32_tflops = 10
bf16_tflops = 20.5
memory_gb_per_s = 1000
[inside_node]
gb_per_s = 100
[between_nodes]
latency_us = 20
gb_per_s = 10
)";

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_cluster(text, "lab.toml");
  } catch (const JobError& error) {
    return error.what();
  }
  return "";
}

TEST(ClusterFile, IsRead) {
  const Cluster cluster = parse_cluster(kGood, "lab.toml");
  EXPECT_EQ(cluster.cluster.name, "lab");
  EXPECT_EQ(cluster.ranks(), 8);
  EXPECT_EQ(cluster.device.devices_per_rank, 1);
  EXPECT_EQ(cluster.device.memory_gib, 0);
  EXPECT_EQ(cluster.device.bf16_tflops, 20.5);
  EXPECT_EQ(cluster.device.product_efficiency, 0.7);
  EXPECT_EQ(cluster.inside_node.latency_us, 5);
  EXPECT_EQ(cluster.between_nodes.latency_us, 20);
  EXPECT_EQ(cluster.between_nodes.gb_per_s, 10);
}

TEST(ClusterFile, ProblemsHaveLineAndColumn) {
  EXPECT_THAT(
      refusal(kGood, "nodes = 2", "nodes = 0"),
      AllOf(HasSubstr("lab.toml:3:9"), HasSubstr("cluster.nodes"), HasSubstr("1 problem in the cluster")));
  EXPECT_THAT(refusal(kGood, "bf16_tflops", "bf16_flops"),
              AllOf(HasSubstr("lab.toml:8:1"), HasSubstr("did you mean `bf16_tflops`")));
  EXPECT_THAT(refusal(kGood, "[between_nodes]", "[between_node]"), HasSubstr("did you mean [between_nodes]"));
  EXPECT_THAT(refusal(kGood, "memory_gb_per_s = 1000", ""),
              AllOf(HasSubstr("[device]: required, but missing"), HasSubstr("memory_gb_per_s")));
  EXPECT_THAT(refusal(kGood, "memory_gb_per_s = 1000", "memory_gb_per_s = 1000\nproduct_efficiency = 1.2"),
              AllOf(HasSubstr("lab.toml:10:22"), HasSubstr("number in [0.001, 1]")));
  EXPECT_THAT(refusal(kGood, "nodes = 2", "nodes = "), HasSubstr("lab.toml:3"));
}

// Every number of a cluster has two ends, and what lies beyond either is refused at its place.
TEST(ClusterFile, AbsurdNumbersAreRefused) {
  int numbers = 0;
  for (const char* key : {"memory_gib", "fp32_tflops", "bf16_tflops", "memory_gb_per_s", "product_efficiency",
                          "memory_efficiency", "latency_us", "gb_per_s"}) {
    std::string text = kGood;
    const std::string section =
        key == std::string("latency_us") || key == std::string("gb_per_s")
            ? "[between_nodes]\nlatency_us = 20\ngb_per_s = 10\n"
            : "name = \"chip\"\nfp32_tflops = 10\nbf16_tflops = 20.5\nmemory_gb_per_s = 1000\n";
    for (const char* value : {"1e300", "-1", "nan", "inf", "-1e-300"}) {
      std::string changed = section;
      const std::string begin = std::string(key) + " = ";
      const size_t at = changed.find("\n" + begin);
      if (at == std::string::npos) {
        changed += begin + value + "\n";
      } else {
        changed.replace(at + 1, changed.find('\n', at + 1) - at - 1, begin + value);
      }
      EXPECT_THAT(refusal(text, section, changed),
                  AllOf(HasSubstr("lab.toml:"), HasSubstr(key), HasSubstr("number in [")))
          << key << " = " << value;
      ++numbers;
    }
  }
  EXPECT_EQ(numbers, 40);
}

TEST(ClusterFile, OnesOfTheRepositoryAreRead) {
  int read = 0;
  for (const char* folder : {"configs/clusters", "configs/published"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(kRoot) / folder)) {
      if (entry.path().filename().string().rfind("llama", 0) == 0) continue;  // jobs
      EXPECT_GT(read_cluster(entry.path()).ranks(), 1) << entry.path();
      ++read;
    }
  }
  EXPECT_GE(read, 5);
}

TEST(ClusterFile, MissingFilesAreSaid) {
  try {
    read_cluster("/nowhere/cluster.toml");
    FAIL() << "read";
  } catch (const JobError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/nowhere/cluster.toml"), HasSubstr("cluster file")));
  }
}

TEST(ClusterFile, KeysAreThoseOfTheDocumentation) {
  std::ifstream in(kRoot + "/docs/planner.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_THAT(page, HasSubstr(cluster_file_keys())) << "copy these tables into docs/planner.md:\n"
                                                    << cluster_file_keys();
}

}  // namespace
}  // namespace penstock
