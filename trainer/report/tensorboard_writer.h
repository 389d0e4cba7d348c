#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trainer/report/append_file.h"
#include "trainer/report/step_metrics.h"

namespace penstock::report {

/// One TensorBoard event file: records of {u64 length, masked CRC-32C of it, data, masked CRC-32C of the
/// data}, the data being a protocol-buffer Event. Little-endian machines only, as all that Penstock runs on.
class TensorBoardWriter {
 public:
  using Clock = std::chrono::system_clock;

  /// Creates `folder` if need be, and in it a new file `events.out.tfevents.<seconds>.<host>.<pid>.<n>`.
  /// After a resume at `resumed_step` it opens with a SessionLog START, which tells TensorBoard to forget the
  /// later steps of earlier files.
  TensorBoardWriter(const std::string& folder, std::optional<int64_t> resumed_step, MessageSink sink);

  /// The run was taken back to `step`: TensorBoard forgets the later ones.
  void go_on_from(int64_t step, Clock::time_point at = Clock::now());

  /// The step's scalars, one record. Absent ones are left out. Allocates nothing once a record has been
  /// written.
  void write(const StepMetrics& metrics, Clock::time_point at = Clock::now());

  /// A single scalar, such as "validation_loss".
  void write(std::string_view tag, double value, int64_t step, Clock::time_point at = Clock::now());

  const std::string& path() const { return file_.path(); }

 private:
  void write_event(double wall_time, int64_t step, int field, std::string_view payload);

  AppendFile file_;
  std::string summary_;
  std::string value_;
  std::string event_;
  std::string record_;
};

namespace tensorboard {

/// Appends `data` as a record.
void append_record(std::string_view data, std::string& out);

/// Appends an Event {1 wall_time, 2 step (left out if 0), `field`: `payload`}.
void append_event(double wall_time, int64_t step, int field, std::string_view payload, std::string& out);

}  // namespace tensorboard

}  // namespace penstock::report
