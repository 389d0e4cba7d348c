#include "kernels/device/arena.h"

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/processor.h"
#include "tests/kernels/device/contract/device_under_test.h"

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

TEST(Arena, PiecesAreAlignedNamedAndAccountedFor) {
  const auto device = make_device(StreamMode::queued);
  Arena& arena = device->create_arena(ArenaTag::activations, 4096);
  EXPECT_EQ(arena.capacity(), 4096u);
  EXPECT_EQ(arena.used(), 0u);
  char* first = static_cast<char*>(arena.allocate("mlp_0.gate", 1));
  char* second = static_cast<char*>(arena.allocate("mlp_0.up", 257));
  const Tensor tensor = arena.allocate("mlp_0.out", DType::bf16, {3, 50});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % alignment_bytes, 0u);
  EXPECT_EQ(second - first, 256);
  EXPECT_EQ(tensor.as<char>() - second, 512);
  EXPECT_EQ(tensor.shape, (Shape{3, 50}));
  EXPECT_EQ(tensor.dtype, DType::bf16);
  EXPECT_EQ(arena.used(), 256u + 512u + 512u);
  ASSERT_EQ(arena.allocations().size(), 3u);
  EXPECT_EQ(arena.allocations()[2].name, "mlp_0.out");
  EXPECT_EQ(arena.allocations()[2].offset, 768u);
  EXPECT_EQ(arena.allocations()[2].bytes, 512u);
  EXPECT_THAT(arena.table(), AllOf(HasSubstr("mlp_0.gate"), HasSubstr("768"), HasSubstr("mlp_0.out")));
  arena.reset();
  EXPECT_EQ(arena.used(), 0u);
  EXPECT_EQ(arena.allocate("again", 4096), first);
  EXPECT_EQ(arena.allocate("nothing", 0), first + 4096);
}

TEST(Arena, WhatDoesNotFitIsRefusedWithTheTable) {
  const auto device = make_device(StreamMode::queued);
  Arena& arena = device->create_arena(ArenaTag::optimizer, 1024);
  arena.allocate("attention_0.moments", 700);
  EXPECT_THAT(message_of<DeviceError>([&] { arena.allocate("mlp_0.moments", 300); }),
              AllOf(HasSubstr("\"optimizer\""), HasSubstr("\"mlp_0.moments\" needs 300 bytes"),
                    HasSubstr("256 of 1024"), HasSubstr("attention_0.moments")));
  EXPECT_THAT(message_of<DeviceError>([&] { arena.allocate("huge", SIZE_MAX); }), HasSubstr("\"huge\""));
  EXPECT_EQ(arena.used(), 768u);
  EXPECT_NE(arena.allocate("fits", 256), nullptr);
}

TEST(Arena, OneATag) {
  DeviceOptions options;
  options.rank = 3;
  const auto device = cpu::make_cpu_device(options);
  EXPECT_FALSE(device->has_arena(ArenaTag::workspace));
  EXPECT_THAT(message_of<UsageError>([&] { device->arena(ArenaTag::workspace); }),
              AllOf(HasSubstr("rank 3"), HasSubstr("\"workspace\"")));
  EXPECT_THAT(message_of<UsageError>([&] { device->destroy_arena(ArenaTag::workspace); }),
              HasSubstr("\"workspace\""));
  Arena& arena = device->create_arena(ArenaTag::workspace, 512);
  EXPECT_EQ(&device->arena(ArenaTag::workspace), &arena);
  EXPECT_THAT(message_of<DeviceError>([&] { device->create_arena(ArenaTag::workspace, 1024); }),
              AllOf(HasSubstr("rank 3"), HasSubstr("\"workspace\""), HasSubstr("512"), HasSubstr("1024")));
  device->destroy_arena(ArenaTag::workspace);
  EXPECT_FALSE(device->has_arena(ArenaTag::workspace));
  EXPECT_EQ(device->create_arena(ArenaTag::workspace, 1024).capacity(), 1024u);
}

TEST(Arena, OneMoreATagWhileTheFirstIsSetAside) {
  const auto device = make_device(StreamMode::queued);
  Arena& first = device->create_arena(ArenaTag::workspace, 512);
  auto* const kept = static_cast<char*>(first.allocate("kept", 512));
  kept[511] = 'k';
  device->set_arenas_aside();
  EXPECT_FALSE(device->has_arena(ArenaTag::workspace));
  EXPECT_THAT(message_of<UsageError>([&] { device->set_arenas_aside(); }),
              AllOf(HasSubstr("\"workspace\""), HasSubstr("512")));
  Arena& second = device->create_arena(ArenaTag::workspace, 1024);
  EXPECT_EQ(&device->arena(ArenaTag::workspace), &second);
  EXPECT_EQ(kept[511], 'k');
  EXPECT_THAT(message_of<DeviceError>([&] { device->bring_arenas_back(); }), HasSubstr("1024"));
  device->destroy_arena(second);
  device->bring_arenas_back();
  EXPECT_EQ(&device->arena(ArenaTag::workspace), &first);
  // And the other way round: the second stays.
  device->set_arenas_aside();
  Arena& third = device->create_arena(ArenaTag::workspace, 256);
  device->destroy_arena(first);
  EXPECT_EQ(&device->arena(ArenaTag::workspace), &third);
  device->set_arenas_aside();
  Arena stranger(ArenaTag::workspace, nullptr, 0, [](void*, size_t) {});
  EXPECT_THROW(device->destroy_arena(stranger), UsageError);
}

TEST(Arena, MayBeEmpty) {
  const auto device = make_device(StreamMode::queued);
  Arena& arena = device->create_arena(ArenaTag::communication, 0);
  EXPECT_EQ(arena.capacity(), 0u);
  EXPECT_THROW(arena.allocate("one byte", 1), DeviceError);
}

TEST(Arena, EveryPageIsTouchedAtCreation) {
  const auto device = make_device(StreamMode::queued);
  // Below and above the size from which large pages are asked for, no multiple of a page.
  for (const auto& [tag, capacity] : {std::pair{ArenaTag::parameters, size_t{100} * 1000},
                                      {ArenaTag::gradients, size_t{9} * 1000 * 1000}}) {
    Arena& arena = device->create_arena(tag, capacity);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> resident((capacity + page - 1) / page);
    ASSERT_EQ(mincore(arena.allocate("all", capacity / alignment_bytes * alignment_bytes), capacity,
                      resident.data()),
              0);
    for (const unsigned char in_core : resident) ASSERT_EQ(in_core & 1, 1);
  }
}

TEST(Arena, MoreThanTheMachineHasIsRefusedWithNumbers) {
  DeviceOptions options;
  options.rank = 1;
  const auto device = cpu::make_cpu_device(options);
  const size_t wanted = size_t{1} << 50;
  EXPECT_THAT(message_of<DeviceError>([&] { device->create_arena(ArenaTag::parameters, wanted); }),
              AllOf(HasSubstr("rank 1"), HasSubstr("\"parameters\""), HasSubstr(std::to_string(wanted)),
                    HasSubstr("available")));
  EXPECT_FALSE(device->has_arena(ArenaTag::parameters));
}

TEST(HostMemory, AvailabilityIsReadFromTheSystem) {
  const cpu::AvailableMemory available = cpu::available_memory();
  const uint64_t physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(available.bytes, uint64_t{64} << 20);
  EXPECT_LE(available.bytes, physical);
  EXPECT_FALSE(available.source.empty());
}

TEST(CpuDevice, DescribesItself) {
  DeviceOptions options;
  options.threads = 2;
  const auto device = cpu::make_cpu_device(options);
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
  EXPECT_EQ(device->description(), cpu::processor_name() + " (2 threads)");
  EXPECT_FALSE(cpu::processor_name().empty());
  EXPECT_FALSE(device->options().clock->is_virtual());
}

TEST(CpuDevice, RefusesWhatMakesNoSense) {
  DeviceOptions none;
  none.rank = 2;
  none.threads = 0;
  EXPECT_THAT(message_of<UsageError>([&] { cpu::make_cpu_device(none); }),
              AllOf(HasSubstr("rank 2"), HasSubstr("0 threads")));
  DeviceOptions second;
  second.index = 1;
  EXPECT_THAT(message_of<UsageError>([&] { cpu::make_cpu_device(second); }), HasSubstr("CPU device 1"));
}

#if defined(__x86_64__)
TEST(CpuDevice, Bf16FollowsTheProcessorsFlags) {
  // The compiler's own probe knows avx512_bf16; amx_bf16 comes only with it.
  EXPECT_EQ(cpu::processor_has_bf16(), __builtin_cpu_supports("avx512bf16") != 0);
}
#endif

}  // namespace
}  // namespace penstock::testing
