#include "kernels/transport/launch.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

LaunchRequest job(int64_t pipeline, std::optional<int64_t> data,
                  TransportChoice transport = TransportChoice::automatic) {
  return {transport, pipeline, data, "penstock train job.toml"};
}
LaunchRequest on_gpus(LaunchRequest request, BootstrapChoice bootstrap = BootstrapChoice::automatic) {
  request.cuda = true;
  request.bootstrap = bootstrap;
  return request;
}

const LaunchSigns alone;
const LaunchSigns mpirun_6{6, true, 0, false};
const LaunchSigns mpirun_8{8, true, 0, false};
const LaunchSigns srun_8{0, true, 8, true};
const LaunchSigns batch_8{0, false, 8, false};
const LaunchSigns srun_without_pmi{0, false, 8, true};
const LaunchSigns torchrun_8{0, false, 0, false, 8};

void expect_plan(const LaunchPlan& plan, TransportKind transport, int pipeline, int data) {
  EXPECT_EQ(plan.transport, transport);
  EXPECT_EQ(plan.pipeline, pipeline);
  EXPECT_EQ(plan.data, data);
  EXPECT_EQ(plan.ranks, pipeline * data);
}

template <class... Parts>
void expect_refused(const LaunchRequest& request, const LaunchSigns& signs, int mpi_size, Parts... parts) {
  EXPECT_THAT([&] { plan_launch(request, signs, mpi_size); },
              ThrowsMessage<LaunchError>(AllOf(HasSubstr(parts)...)));
}

TEST(Launch, WithoutALauncherRanksAreThreads) {
  EXPECT_FALSE(needs_mpi(job(1, 1), alone, true));
  EXPECT_FALSE(needs_mpi(job(4, 2), alone, false));
  expect_plan(plan_launch(job(1, std::nullopt), alone, 0), TransportKind::inproc, 1, 1);
  expect_plan(plan_launch(job(4, std::nullopt), alone, 0), TransportKind::inproc, 4, 1);
  expect_plan(plan_launch(job(4, 2), alone, 0), TransportKind::inproc, 4, 2);
  expect_plan(plan_launch(job(4, 2, TransportChoice::inproc), alone, 0), TransportKind::inproc, 4, 2);
}

TEST(Launch, UnderALauncherTheWorldIsMpis) {
  EXPECT_TRUE(needs_mpi(job(4, 2), mpirun_8, true));
  EXPECT_TRUE(needs_mpi(job(4, 2), srun_8, true));
  expect_plan(plan_launch(job(4, 2), mpirun_8, 8), TransportKind::mpi, 4, 2);
  expect_plan(plan_launch(job(4, 2), srun_8, 8), TransportKind::mpi, 4, 2);
  expect_plan(plan_launch(job(2, std::nullopt), mpirun_8, 8), TransportKind::mpi, 2, 4);
  expect_plan(plan_launch(job(8, std::nullopt), mpirun_8, 8), TransportKind::mpi, 8, 1);
}

TEST(Launch, RanksComeFromMpiEvenWhereTheEnvironmentSaysOtherwise) {
  expect_plan(plan_launch(job(2, std::nullopt), mpirun_8, 6), TransportKind::mpi, 2, 3);
}

TEST(Launch, ARunOfOneNeedsNoMessages) {
  const LaunchSigns one{1, true, 0, false};
  EXPECT_TRUE(needs_mpi(job(1, 1), one, true));
  expect_plan(plan_launch(job(1, std::nullopt), one, 1), TransportKind::inproc, 1, 1);
  expect_plan(plan_launch(job(1, 1, TransportChoice::mpi), alone, 1), TransportKind::mpi, 1, 1);
}

TEST(Launch, OverTcpNoMpiIsNeeded) {
  const LaunchRequest eight = job(4, 2, TransportChoice::tcp);
  EXPECT_FALSE(needs_mpi(eight, mpirun_8, true));
  EXPECT_FALSE(needs_mpi(eight, alone, false));
  expect_plan(plan_launch(eight, alone, 8), TransportKind::tcp, 4, 2);
  expect_plan(plan_launch(job(2, std::nullopt, TransportChoice::tcp), srun_8, 8), TransportKind::tcp, 2, 4);
  expect_plan(plan_launch(job(1, 1, TransportChoice::tcp), alone, 1), TransportKind::tcp, 1, 1);
  expect_refused(eight, alone, 6, "8 processes, and 6 were started", "WORLD_SIZE=8", "each r from 0 to 7");
  expect_refused(eight, srun_8, 6, "srun -n 8 penstock train job.toml");
}

TEST(Launch, AWrongWorldSizeIsRefusedWithTheCommand) {
  expect_refused(job(4, 2), mpirun_6, 6, "4 · 2 = 8 processes, and 6 were started",
                 "mpirun -n 8 penstock train job.toml");
  expect_refused(job(4, 4), srun_8, 8, "4 · 4 = 16 processes, and 8 were started",
                 "srun --mpi=pmix -n 16 penstock train job.toml");
  expect_refused(job(4, std::nullopt), mpirun_6, 6, "6 processes", "no multiple of parallel.pipeline = 4",
                 "mpirun -n 8 penstock train job.toml");
  expect_refused(job(4, 1), {1, true, 0, false}, 1, "and 1 was started",
                 "mpirun -n 4 penstock train job.toml", "comm.transport = \"inproc\"");
  expect_refused(job(4, std::nullopt), {1, true, 0, false}, 1, "mpirun -n 4 penstock train job.toml",
                 "comm.transport = \"inproc\"");
  expect_refused(job(4, 1, TransportChoice::mpi), alone, 1, "mpirun -n 4 penstock train job.toml");
}

TEST(Launch, SingletonsUnderSrunAreRecognised) {
  for (const TransportChoice transport : {TransportChoice::automatic, TransportChoice::mpi}) {
    EXPECT_FALSE(needs_mpi(job(8, 1, transport), srun_without_pmi, true))
        << "MPI would end the process before we can say anything";
    expect_refused(job(8, 1, transport), srun_without_pmi, 0,
                   "Slurm started 8 tasks, but srun did not connect them",
                   "srun --mpi=pmix -n 8 penstock train job.toml");
  }
  // A library that does not know this PMI starts a world of one in each process.
  expect_refused(job(8, 1), srun_8, 1, "MPI sees a world of 1 process",
                 "srun --mpi=pmix -n 8 penstock train job.toml");
  expect_refused(job(1, std::nullopt), {0, false, 8, true}, 1, "srun --mpi=pmix -n 8");
}

TEST(Launch, ABatchScriptWithoutSrunIsRecognised) {
  EXPECT_FALSE(needs_mpi(job(8, 1), batch_8, true));
  expect_refused(job(8, 1), batch_8, 0, "started once, without srun",
                 "srun --mpi=pmix -n 8 penstock train job.toml", "comm.transport = \"inproc\"");
  expect_plan(plan_launch(job(8, 1, TransportChoice::inproc), batch_8, 0), TransportKind::inproc, 8, 1);
}

TEST(Launch, InprocUnderALauncherOfSeveralIsRefused) {
  EXPECT_TRUE(needs_mpi(job(4, 2, TransportChoice::inproc), mpirun_8, true));
  expect_refused(job(4, 2, TransportChoice::inproc), mpirun_8, 8, "but 8 were started",
                 "with: penstock train job.toml");
  expect_refused(job(4, 2, TransportChoice::inproc), {0, false, 8, true}, 1, "but srun started 8",
                 "srun -n 1 penstock train job.toml");
}

TEST(Launch, WithoutMpiBuiltIn) {
  EXPECT_THAT([&] { needs_mpi(job(4, 2, TransportChoice::mpi), alone, false); },
              ThrowsMessage<LaunchError>(AllOf(HasSubstr("comm.transport = \"mpi\""), HasSubstr("no MPI"),
                                               HasSubstr("libopenmpi-dev"))));
  EXPECT_THAT([&] { needs_mpi(job(4, 2), mpirun_8, false); },
              ThrowsMessage<LaunchError>(AllOf(HasSubstr("one of several"), Not(HasSubstr("\"mpi\"")))));
  EXPECT_FALSE(needs_mpi(job(4, 2, TransportChoice::inproc), {1, true, 0, false}, false));
}

TEST(Launch, ProcessesWithGpusTalkByNccl) {
  for (const LaunchRequest& eight : {on_gpus(job(4, 2)), job(4, 2, TransportChoice::nccl)}) {
    EXPECT_TRUE(wants_nccl(eight));
    expect_plan(plan_launch(eight, mpirun_8, 8), TransportKind::nccl, 4, 2);
    expect_plan(plan_launch(eight, srun_without_pmi, 8), TransportKind::nccl, 4, 2);
    expect_refused(eight, mpirun_8, 6, "8 processes, and 6 were started",
                   "mpirun -n 8 penstock train job.toml");
    expect_refused(eight, srun_8, 6, "srun -n 8 penstock train job.toml");
  }
  expect_plan(plan_launch(on_gpus(job(4, 2)), alone, 0), TransportKind::inproc, 4, 2);
  expect_plan(plan_launch(on_gpus(job(1, 1)), alone, 1), TransportKind::inproc, 1, 1);
  expect_plan(plan_launch(job(4, 2, TransportChoice::nccl), alone, 0), TransportKind::nccl, 4, 2);
  for (const auto other : {TransportChoice::inproc, TransportChoice::mpi, TransportChoice::tcp})
    EXPECT_FALSE(wants_nccl(on_gpus(job(4, 2, other))));
  EXPECT_FALSE(wants_nccl(job(4, 2)));
}

TEST(Launch, NcclsRanksMeetByMpiOrTcp) {
  struct Case {
    BootstrapChoice bootstrap;
    LaunchSigns signs;
    bool mpi_built_in;
    bool mpi;
    bool tcp;
  };
  for (const Case& each : {Case{BootstrapChoice::automatic, mpirun_8, true, true, false},
                           Case{BootstrapChoice::automatic, srun_8, true, true, false},
                           Case{BootstrapChoice::automatic, mpirun_8, false, false, true},
                           Case{BootstrapChoice::automatic, srun_without_pmi, true, false, true},
                           Case{BootstrapChoice::automatic, torchrun_8, true, false, true},
                           Case{BootstrapChoice::automatic, alone, true, false, false},
                           Case{BootstrapChoice::automatic, batch_8, true, false, false},
                           Case{BootstrapChoice::tcp, mpirun_8, true, false, true},
                           Case{BootstrapChoice::tcp, alone, true, false, true},
                           Case{BootstrapChoice::mpi, mpirun_8, true, true, false},
                           Case{BootstrapChoice::mpi, alone, true, true, false}}) {
    for (const LaunchRequest& request :
         {on_gpus(job(4, 2), each.bootstrap), on_gpus(job(4, 2, TransportChoice::nccl), each.bootstrap)}) {
      EXPECT_EQ(needs_mpi(request, each.signs, each.mpi_built_in), each.mpi);
      EXPECT_EQ(needs_tcp(request, each.signs, each.mpi_built_in), each.tcp);
    }
  }
  EXPECT_THAT([&] { needs_mpi(on_gpus(job(4, 2), BootstrapChoice::mpi), mpirun_8, false); },
              ThrowsMessage<LaunchError>(AllOf(HasSubstr("comm.bootstrap = \"mpi\""), HasSubstr("no MPI"))));
  EXPECT_TRUE(needs_tcp(job(4, 2, TransportChoice::tcp), alone, true));
  EXPECT_FALSE(needs_tcp(job(4, 2), torchrun_8, true));
  expect_refused(on_gpus(job(4, 2), BootstrapChoice::mpi), srun_8, 6, "srun --mpi=pmix -n 8 penstock");
  expect_refused(on_gpus(job(4, 2)), batch_8, 0, "started once, without srun", "srun -n 8 penstock");
}

TEST(Launch, SizesThatMakeNoWorldAreRefused) {
  expect_refused(job(0, 1), alone, 0, "parallel.pipeline = 0");
  expect_refused(job(4, 0), alone, 0, "parallel.data = 0");
  expect_refused(job(int64_t{1} << 20, int64_t{1} << 20), alone, 0, "fits 31 bits");
  expect_refused(job(0, std::nullopt), mpirun_8, 8, "parallel.pipeline = 0");
}

TEST(Launch, SignsAreReadFromTheEnvironment) {
  std::map<std::string, std::string> environment;
  const auto read = [&] {
    return read_launch_signs([&](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(read(), alone);
  environment = {{"OMPI_COMM_WORLD_SIZE", "6"}, {"PMIX_RANK", "3"}};
  EXPECT_EQ(read(), mpirun_6);
  environment = {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "0"}};
  EXPECT_EQ(read(), srun_8);
  environment = {{"SLURM_NTASKS", "8"}};
  EXPECT_EQ(read(), batch_8);
  environment = {{"RANK", "0"}, {"WORLD_SIZE", "8"}};
  EXPECT_EQ(read(), torchrun_8);
  environment = {{"WORLD_SIZE", "8"}};
  EXPECT_EQ(read(), alone);
  environment = {{"SLURM_NTASKS", "8x"}, {"OMPI_COMM_WORLD_SIZE", ""}};
  EXPECT_EQ(read(), alone);
}

}  // namespace
}  // namespace penstock::transport
