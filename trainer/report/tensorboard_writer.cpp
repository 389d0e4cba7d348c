#include "trainer/report/tensorboard_writer.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "trainer/report/crc32c.h"

namespace penstock::report {
namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of Event, Summary.Value and SessionLog.
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
constexpr std::string_view kSessionStart = "\x08\x01";  // SessionLog{1 status: START}

template <class T>
void append_raw(T value, std::string& out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void append_varint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void append_bytes(int field, std::string_view bytes, std::string& out) {
  append_varint(static_cast<uint64_t>(field) << 3 | 2, out);
  append_varint(bytes.size(), out);
  out += bytes;
}

double seconds_of(TensorBoardWriter::Clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  std::string out = name;
  for (char& c : out) {
    if (c == '/') c = '_';
  }
  return out;
}

// Creates the file under the first free number: two attempts may start within one second and one recycled
// process id.
std::string new_file(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw ReportError(fmt::format("{}: cannot create the folder: {}", folder, error.message()));
  const auto seconds = static_cast<int64_t>(seconds_of(TensorBoardWriter::Clock::now()));
  const std::string host = host_name();
  for (int n = 0;; ++n) {
    std::string path =
        fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, seconds, host, ::getpid(), n);
    if (AppendFile::create_new(path)) return path;
  }
}

}  // namespace

namespace tensorboard {

void append_record(std::string_view data, std::string& out) {
  const size_t begin = out.size();
  append_raw(static_cast<uint64_t>(data.size()), out);
  append_raw(masked_crc32c(std::string_view(out).substr(begin, 8)), out);
  out += data;
  append_raw(masked_crc32c(data), out);
}

void append_event(double wall_time, int64_t step, int field, std::string_view payload, std::string& out) {
  out += '\x09';
  append_raw(wall_time, out);
  if (step != 0) {
    out += '\x10';
    append_varint(static_cast<uint64_t>(step), out);
  }
  append_bytes(field, payload, out);
}

}  // namespace tensorboard

TensorBoardWriter::TensorBoardWriter(const std::string& folder, std::optional<int64_t> resumed_step,
                                     MessageSink sink)
    : file_(new_file(folder), AppendFile::Tail::keep, std::move(sink)) {
  const double now = seconds_of(Clock::now());
  write_event(now, 0, kFileVersion, "brain.Event:2");
  if (resumed_step) go_on_from(*resumed_step);
}

void TensorBoardWriter::go_on_from(int64_t step, Clock::time_point at) {
  write_event(seconds_of(at), step, kSessionLog, kSessionStart);
}

void TensorBoardWriter::write(const StepMetrics& metrics, Clock::time_point at) {
  summary_.clear();
  for (const StepMetrics::Scalar& scalar : metrics.scalars()) {
    if (!scalar.value) continue;
    value_.clear();
    append_bytes(1, scalar.name, value_);
    value_ += '\x15';
    append_raw(static_cast<float>(*scalar.value), value_);
    append_bytes(1, value_, summary_);
  }
  if (!summary_.empty()) write_event(seconds_of(at), metrics.step, kSummary, summary_);
}

void TensorBoardWriter::write(std::string_view tag, double value, int64_t step, Clock::time_point at) {
  value_.clear();
  append_bytes(1, tag, value_);
  value_ += '\x15';
  append_raw(static_cast<float>(value), value_);
  summary_.clear();
  append_bytes(1, value_, summary_);
  write_event(seconds_of(at), step, kSummary, summary_);
}

void TensorBoardWriter::write_event(double wall_time, int64_t step, int field, std::string_view payload) {
  event_.clear();
  record_.clear();
  tensorboard::append_event(wall_time, step, field, payload, event_);
  tensorboard::append_record(event_, record_);
  file_.append(record_);
}

}  // namespace penstock::report
