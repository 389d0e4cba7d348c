#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/report/report_folder.h"
#include "trainer/report/crc32c.h"
#include "trainer/report/tensorboard_writer.h"

namespace penstock::report {
namespace {

using testing::MatchesRegex;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, TheFirstRecordHasItsExactBytes) {
  std::string event;
  std::string record;
  tensorboard::append_event(0.0, 0, 3, "brain.Event:2", event);
  tensorboard::append_record(event, record);
  EXPECT_EQ(hex(record), "1800000000000000a37f4b220900000000000000001a0d627261696e2e4576656e743a32eedf28a3");
}

// A reader of its own: protocol-buffer fields by number, lengths and checksums verified.
using Fields = std::multimap<int, std::string>;

uint64_t varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.at(0));
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

Fields fields_of(std::string_view in) {
  Fields out;
  while (!in.empty()) {
    const uint64_t key = varint(in);
    size_t size = 0;
    if ((key & 7) == 0) {
      out.emplace(key >> 3, std::to_string(varint(in)));
      continue;
    }
    if ((key & 7) == 1) size = 8;
    if ((key & 7) == 5) size = 4;
    if ((key & 7) == 2) size = varint(in);
    out.emplace(key >> 3, std::string(in.substr(0, size)));
    in.remove_prefix(size);
  }
  return out;
}

template <class T>
T raw(std::string_view bytes) {
  T value;
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<Fields> events_of(std::string_view file) {
  std::vector<Fields> out;
  while (!file.empty()) {
    const auto size = raw<uint64_t>(file);
    EXPECT_EQ(raw<uint32_t>(file.substr(8)), masked_crc32c(file.substr(0, 8)));
    const std::string_view data = file.substr(12, size);
    EXPECT_EQ(raw<uint32_t>(file.substr(12 + size)), masked_crc32c(data));
    out.push_back(fields_of(data));
    file.remove_prefix(16 + size);
  }
  return out;
}

std::map<std::string, float> scalars_of(const Fields& event) {
  std::map<std::string, float> out;
  for (const auto& [number, bytes] : fields_of(event.find(5)->second)) {
    const Fields value = fields_of(bytes);
    out[value.find(1)->second] = raw<float>(value.find(2)->second);
  }
  return out;
}

TEST(TensorBoard, HoldsTheScalarsOfEveryStep) {
  const ReportFolder folder;
  TensorBoardWriter writer(folder / "tensorboard", std::nullopt, {});
  StepMetrics metrics;
  metrics.step = 300;
  metrics.loss = 2.5;
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  const TensorBoardWriter::Clock::time_point at{std::chrono::milliseconds(1500)};
  writer.write(metrics, at);
  writer.write("validation_loss", 1.25, 301, at);

  const std::string name = std::filesystem::path(writer.path()).filename();
  EXPECT_THAT(name, MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+\\.[0-9]+\\.0"));
  const std::vector<Fields> events = events_of(folder.read("tensorboard/" + name));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].find(3)->second, "brain.Event:2");
  EXPECT_EQ(raw<double>(events[1].find(1)->second), 1.5);
  EXPECT_EQ(events[1].find(2)->second, "300");
  EXPECT_EQ(scalars_of(events[1]), (std::map<std::string, float>{{"loss", 2.5f}, {"grad_norm", INFINITY}}));
  EXPECT_EQ(events[2].find(2)->second, "301");
  EXPECT_EQ(scalars_of(events[2]), (std::map<std::string, float>{{"validation_loss", 1.25f}}));
}

TEST(TensorBoard, AResumeOpensANewFileThatStartsASession) {
  const ReportFolder folder;
  const TensorBoardWriter first(folder / "t", std::nullopt, {});
  const TensorBoardWriter second(folder / "t", 20, {});
  EXPECT_NE(first.path(), second.path());
  const std::string name = std::filesystem::path(second.path()).filename();
  const std::vector<Fields> events = events_of(folder.read("t/" + name));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].find(3)->second, "brain.Event:2");
  EXPECT_EQ(events[1].find(2)->second, "20");
  EXPECT_EQ(fields_of(events[1].find(7)->second).find(1)->second, "1");
}

}  // namespace
}  // namespace penstock::report
