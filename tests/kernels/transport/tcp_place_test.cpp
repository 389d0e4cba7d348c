#include "kernels/transport/tcp_place.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/transport/launch.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

TcpPlace place_in(const Variables& variables, const std::string& address = "", int port = 0) {
  return read_tcp_place(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      address, port);
}

const Variables by_hand{
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
const Variables srun{
    {"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "8"},  {"SLURM_STEP_NODELIST", "gpu[07-08],big"},
    {"SLURM_JOB_ID", "41"}, {"SLURM_STEP_ID", "2"}, {"SLURM_RESTART_COUNT", "1"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"PMIX_NAMESPACE", "job7"}};

TEST(TcpPlace, ComesFromWhoStartedTheProcess) {
  const TcpPlace hand = place_in(by_hand);
  EXPECT_EQ(hand.rank, 2);
  EXPECT_EQ(hand.ranks, 4);
  EXPECT_EQ(hand.address, "node7");
  EXPECT_EQ(hand.port, 29500);
  const TcpPlace slurm = place_in(srun);
  EXPECT_EQ(slurm.rank, 3);
  EXPECT_EQ(slurm.ranks, 8);
  EXPECT_EQ(slurm.address, "gpu07");
  EXPECT_EQ(slurm.attempt, "41.2.1");
  const TcpPlace local = place_in(mpirun);
  EXPECT_EQ(local.rank, 1);
  EXPECT_EQ(local.address, "127.0.0.1");
  for (const TcpPlace& place : {slurm, local}) {
    EXPECT_GE(place.port, 20000);
    EXPECT_LT(place.port, 30000);
  }
  Variables restarted = srun;
  restarted["SLURM_RESTART_COUNT"] = "2";
  EXPECT_NE(place_in(restarted).attempt, slurm.attempt);
  EXPECT_EQ(place_in(srun).port, slurm.port) << "the same in all processes";
}

TEST(TcpPlace, TheJobComesFirst) {
  const TcpPlace place = place_in(by_hand, "10.0.0.1", 7777);
  EXPECT_EQ(place.address, "10.0.0.1");
  EXPECT_EQ(place.port, 7777);
  EXPECT_EQ(place.rank, 2);
}

TEST(TcpPlace, WhatIsMissingOrWrongIsNamed) {
  const auto expect_refused = [](const Variables& variables, const auto&... parts) {
    EXPECT_THAT([&] { place_in(variables); },
                testing::ThrowsMessage<LaunchError>(AllOf(HasSubstr(parts)...)));
  };
  const auto without = [](Variables variables, const char* name) {
    variables.erase(name);
    return variables;
  };
  const auto with = [](Variables variables, const char* name, const char* value) {
    variables[name] = value;
    return variables;
  };
  expect_refused({}, "nothing says which rank");
  expect_refused(without(by_hand, "WORLD_SIZE"), "nothing says which rank");
  expect_refused(without(by_hand, "MASTER_ADDR"), "rank 2 of 4", "comm.address", "MASTER_ADDR");
  expect_refused(without(by_hand, "MASTER_PORT"), "comm.port", "MASTER_PORT");
  expect_refused(with(by_hand, "MASTER_PORT", "70000"), "70000", "65535");
  expect_refused(with(by_hand, "RANK", "4"), "RANK = 4", "WORLD_SIZE = 4");
  expect_refused(with(by_hand, "RANK", "two"), "RANK = \"two\"");
  expect_refused(with(mpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "comm.address");
  expect_refused(without(srun, "SLURM_STEP_NODELIST"), "nothing says which rank");
}

TEST(TcpPlace, FirstHostOfANodeList) {
  EXPECT_EQ(first_host("node3"), "node3");
  EXPECT_EQ(first_host("node3,node4"), "node3");
  EXPECT_EQ(first_host("node[03-07,9],other"), "node03");
  EXPECT_EQ(first_host("rack[2,5]-a,b"), "rack2-a");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace penstock::transport
