// What only a CUDA device does: its messages, pinned memory, run-ahead, lost contexts.
#include "kernels/cuda/runtime/device.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/signal.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/device/error.h"
#include "tests/fake_cuda/enqueue.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

std::unique_ptr<Device> device_of(int rank, int gpu = 0) {
  DeviceOptions options;
  options.rank = rank;
  options.index = gpu;
  return cuda::make_cuda_device(options);
}

TEST(CountGpus, SaysWhyThereIsNone) {
  const auto message = [](const fake_cuda::Settings& settings) {
    fake_cuda::reset(settings);
    return message_of<DeviceError>([] { cuda::count_gpus(); });
  };
  EXPECT_THAT(message({.driver_version = 0}),
              AllOf(HasSubstr("no CUDA driver"), HasSubstr("nvidia-smi"), HasSubstr("parallel.device=cpu")));
  EXPECT_THAT(message({.driver_version = 11040}),
              AllOf(HasSubstr("supports CUDA 11.4"), HasSubstr("needs 13.0 or newer"), HasSubstr("update")));
  EXPECT_THAT(message({.gpus = 0}), AllOf(HasSubstr("sees no GPU"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  fake_cuda::reset();
  fake_cuda::fail_call("cudaGetDeviceCount", cudaErrorSystemDriverMismatch);
  EXPECT_THAT(message_of<DeviceError>([] { cuda::count_gpus(); }),
              AllOf(HasSubstr("do not fit together"), HasSubstr("cudaErrorSystemDriverMismatch")));
  EXPECT_EQ(cuda::count_gpus(), 2) << "the error has been cleared";
}

TEST(ChooseGpu, ByLocalRank) {
  fake_cuda::reset({.gpus = 4});
  EXPECT_EQ(cuda::choose_gpu({.rank = 11, .local_rank = 3, .local_ranks = 4}, false), 3);
  EXPECT_EQ(cuda::choose_gpu({.rank = 5, .local_rank = 1, .local_ranks = 2}, false), 1);
  EXPECT_THAT(message_of<DeviceError>(
                  [] { cuda::choose_gpu({.rank = 9, .local_rank = 1, .local_ranks = 8}, false); }),
              AllOf(HasSubstr("rank 9"), HasSubstr("8 ranks on this host and 4 GPUs"),
                    HasSubstr("parallel.share_devices = true")));
  std::vector<int> shared;
  for (int rank = 0; rank < 8; ++rank)
    shared.push_back(cuda::choose_gpu({.rank = rank, .local_rank = rank, .local_ranks = 8}, true));
  EXPECT_EQ(shared, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3})) << "neighbours share";
  // A launcher that shows each rank its own GPU.
  fake_cuda::reset({.gpus = 1});
  EXPECT_EQ(cuda::choose_gpu({.rank = 3, .local_rank = 3, .local_ranks = 4}, false), 0);
  fake_cuda::reset({.compute_major = 7, .compute_minor = 5});
  EXPECT_THAT(message_of<DeviceError>([] { cuda::choose_gpu({}, false); }),
              AllOf(HasSubstr("GPU 0"), HasSubstr("compute capability 7.5"), HasSubstr("8.x and 9.0")));
}

TEST(Placement, IsPrintedAndTwoRanksOnOneGpuAreFound) {
  fake_cuda::reset();
  std::vector<cuda::Placement> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(cuda::placement_from(cuda::to_line(cuda::placement_of(rank, rank))));
    ranks.back().host = "node7";
  }
  EXPECT_EQ(cuda::placement_table(ranks, false),
            "rank 0 → node7 → GPU 0 0000:01:00 Fake GPU (4.0 GiB, compute capability 9.0)\n"
            "rank 1 → node7 → GPU 1 0000:02:00 Fake GPU (4.0 GiB, compute capability 9.0)\n");
  ranks[1].bus = ranks[0].bus;
  EXPECT_THAT(message_of<DeviceError>([&] { cuda::placement_table(ranks, false); }),
              AllOf(HasSubstr("ranks 0 and 1 of host node7"), HasSubstr("0000:01:00"),
                    HasSubstr("--gpus-per-task=1"), HasSubstr("parallel.share_devices")));
  EXPECT_THAT(cuda::placement_table(ranks, true), HasSubstr("rank 1"));
  ranks[1].host = "node8";
  EXPECT_THAT(cuda::placement_table(ranks, false), HasSubstr("node8"));
}

TEST(PeerAccess, ThatIsMissingSaysWhatToDo) {
  fake_cuda::reset();
  cuda::enable_peer_access(0, 1);
  cuda::enable_peer_access(0, 1);  // again is no error
  fake_cuda::reset({.peer_access = false});
  cuda::enable_peer_access(1, 1);
  EXPECT_THAT(message_of<DeviceError>([] { cuda::enable_peer_access(1, 0); }),
              AllOf(HasSubstr("GPU 1 cannot read the memory of GPU 0"), HasSubstr("nvidia-smi topo"),
                    HasSubstr("nccl"), HasSubstr("share_devices")));
}

TEST(CudaDevice, DescribesItselfAndRefusesWhatItHasNot) {
  fake_cuda::reset();
  const auto device = device_of(3, 1);
  EXPECT_EQ(device->kind(), DeviceKind::cuda);
  EXPECT_EQ(device->description(), "Fake GPU (4.0 GiB, compute capability 9.0)");
  EXPECT_THAT(message_of<UsageError>([] { device_of(4, 2); }),
              AllOf(HasSubstr("rank 4"), HasSubstr("GPU 2")));
  DeviceOptions options;
  options.clock = make_virtual_clock();
  EXPECT_THAT(message_of<UsageError>([&] { cuda::make_cuda_device(options); }), HasSubstr("real time"));
}

TEST(CudaDevice, MemoryThatIsShortIsToldWithTheArenas) {
  fake_cuda::reset({.memory = 10000});
  {
    const auto device = device_of(2);
    Arena& parameters = device->create_arena(ArenaTag::parameters, 4096);
    device->create_arena(ArenaTag::gradients, 2048);
    const auto* bytes = static_cast<const unsigned char*>(parameters.allocate("all", 4096));
    EXPECT_EQ(std::vector<unsigned char>(bytes, bytes + 4096), std::vector<unsigned char>(4096, 0));
    EXPECT_THAT(message_of<DeviceError>([&] { device->create_arena(ArenaTag::optimizer, 8192); }),
                AllOf(HasSubstr("rank 2"), HasSubstr("arena \"optimizer\" needs 8192 bytes of GPU 0"),
                      HasSubstr("3856 of 10000 left"), HasSubstr("parameters"), HasSubstr("4096 bytes"),
                      HasSubstr("all arenas"), HasSubstr("6144 bytes"),
                      HasSubstr("cudaErrorMemoryAllocation"), HasSubstr("recomputation")));
    EXPECT_FALSE(device->has_arena(ArenaTag::optimizer));
    device->destroy_arena(ArenaTag::gradients);
    EXPECT_EQ(fake_cuda::allocated(0), 4096u);
    EXPECT_EQ(device->create_arena(ArenaTag::optimizer, 0).capacity(), 0u);
    fake_cuda::fail_call("cudaHostAlloc", cudaErrorMemoryAllocation);
    EXPECT_THAT(
        message_of<DeviceError>([&] { device->create_host_memory("batches", 64); }),
        AllOf(HasSubstr("rank 2"), HasSubstr("\"batches\""), HasSubstr("64 bytes"), HasSubstr("ulimit -l")));
  }
  EXPECT_EQ(fake_cuda::allocated(0), 0u);
}

TEST(CudaStream, PinnedCopiesHoldNobodyUp) {
  fake_cuda::reset();
  const auto device = device_of(0);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto opener = device->create_stream("opener", StreamUse::transfer);
  const auto gate = device->create_signal("gate");
  const auto memory = device->create_host_memory("upload", 8);
  auto* const there = static_cast<char*>(device->create_arena(ArenaTag::workspace, 256).allocate("word", 8));
  stream->wait(*gate, 1);
  stream->copy(there, memory->data(), 8);  // would hang here
  stream->copy(memory->data(), there, 8);
  opener->signal(*gate, 1);
  stream->synchronize();
  EXPECT_EQ(fake_cuda::pageable_copies(), 0u);
  uint64_t word = 1;
  stream->copy(&word, there, 8);
  EXPECT_EQ(fake_cuda::pageable_copies(), 1u);
  EXPECT_EQ(word, 0u);
}

TEST(CudaStream, TheHostRunsAheadSoFarAndNoFurther) {
  fake_cuda::reset();
  const auto device = device_of(0);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const auto opener = device->create_stream("opener", StreamUse::transfer);
  const auto gate = device->create_signal("gate");
  stream->wait(*gate, 1);
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> ran{0};
  constexpr uint64_t total = 4 * cuda::CudaStream::run_ahead;
  std::vector<double> stamps(total, -1);
  std::thread host([&] {
    for (uint64_t i = 0; i < total; ++i) {
      fake_cuda::enqueue(cuda::handle_of(*stream), [&ran] { ++ran; });
      stream->stamp(&stamps[i]);
      ++calls;
    }
  });
  while (calls < cuda::CudaStream::run_ahead / 2 - 1) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) std::this_thread::yield();
  EXPECT_LE(calls, cuda::CudaStream::run_ahead);
  opener->signal(*gate, 1);
  host.join();
  stream->synchronize();
  EXPECT_EQ(ran, total);
  EXPECT_GT(stamps.front(), 0);
  EXPECT_TRUE(std::is_sorted(stamps.begin(), stamps.end()));
}

TEST(CudaStream, ALostContextIsNamedByEveryCall) {
  fake_cuda::reset();
  {
    const auto device = device_of(6);
    const auto stream = device->create_stream("compute", StreamUse::compute);
    const auto event = device->create_event("done");
    fake_cuda::enqueue(cuda::handle_of(*stream), [] { throw std::runtime_error("read outside memory"); });
    const auto lost = AllOf(HasSubstr("rank 6"), HasSubstr("cudaErrorLaunchFailure"),
                            HasSubstr("last checkpoint"), HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
    EXPECT_THAT(message_of<DeviceError>([&] { stream->synchronize(); }),
                AllOf(lost, HasSubstr("stream \"compute\"")));
    EXPECT_THAT(message_of<DeviceError>([&] { stream->record(*event); }),
                AllOf(lost, HasSubstr("recording event \"done\"")));
    EXPECT_THAT(message_of<DeviceError>([&] { event->synchronize(); }), AllOf(lost, HasSubstr("\"done\"")));
    EXPECT_EQ(fake_cuda::lost_because(), "read outside memory");
    ::testing::internal::CaptureStderr();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("cudaErrorLaunchFailure"));
  fake_cuda::reset();
}

TEST(CudaStream, ARefusedCallNamesWhatWasBeingDone) {
  fake_cuda::reset();
  const auto device = device_of(1);
  const auto stream = device->create_stream("send", StreamUse::transfer);
  const auto signal = device->create_signal("boundary full");
  fake_cuda::fail_call("cuStreamWaitValue64", cudaErrorInvalidValue);
  EXPECT_THAT(message_of<DeviceError>([&] { stream->wait(*signal, 4); }),
              AllOf(HasSubstr("rank 1, stream \"send\""), HasSubstr("\"boundary full\" to reach 4"),
                    HasSubstr("cudaErrorInvalidValue")));
  fake_cuda::fail_call("cudaMemcpyAsync", cudaErrorInvalidValue, 1);
  const auto memory = device->create_host_memory("words", 16);
  stream->copy(memory->data(), memory->as<char>() + 8, 8);
  EXPECT_THAT(message_of<DeviceError>([&] { stream->copy(memory->data(), memory->as<char>() + 8, 8); }),
              HasSubstr("copying 8 bytes"));
  stream->synchronize();
}

TEST(CudaSignal, ACellServesAnotherSignalOnceNobodyWritesIt) {
  fake_cuda::reset();
  const auto device = device_of(0);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  const uint64_t* cell = nullptr;
  {
    const auto signal = device->create_signal("short-lived");
    cell = cuda::CudaSignal::of(*signal).cell();
    stream->signal(*signal, 41);
    stream->synchronize();
  }
  const auto next = device->create_signal("next");
  ASSERT_EQ(cuda::CudaSignal::of(*next).cell(), cell) << "the free cell is used again";
  EXPECT_EQ(next->value(), 0u);
  const auto reader = device->create_stream("reader", StreamUse::compute);
  const auto read = device->create_event("read");
  reader->wait(*next, 1);
  reader->record(*read);
  EXPECT_FALSE(read->query()) << "the value of its last owner is none";
  stream->signal(*next, 1);
  reader->synchronize();
  EXPECT_EQ(next->value(), 1u);
}

}  // namespace
}  // namespace penstock::testing
