#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/communicator.h"
#include "parallel/runtime/executed_stage.h"
#include "parallel/runtime/flight_record.h"
#include "parallel/runtime/step_list.h"

namespace penstock::runtime {

/// When an instruction was enqueued, and ran: seconds on the device's clock (enqueued: 0 on a virtual one). A
/// message starts when it is posted and ends when it has passed. `middle`: where a B turns from I to W.
struct Stamp {
  const schedule::Instruction* instruction = nullptr;
  Lane lane = Lane::compute;
  double enqueued = 0;
  double start = 0;
  double end = 0;
  double middle = 0;
};

/// What an executor works with. Everything outlives it.
struct ExecutorParts {
  /// By the stage's number in the model; null: another rank's.
  std::vector<ExecutedStage*> stages;
  /// The rank's boundary buffers, by schedule::BufferPool and index.
  std::array<std::vector<Tensor>, schedule::buffer_pools> buffers;
  /// Of the pipeline's ranks, in pipeline order.
  transport::Communicator* pipeline = nullptr;
  StepOperations* operations = nullptr;
  /// Called ahead of an instruction, behind its waits and before its start: replays and tests make a slow
  /// host with it, and an engine with two steps under way selects what is the instruction's step's. None:
  /// nothing.
  std::function<void(Stream&, const schedule::Instruction&)> before;
  /// Called behind an instruction and its stamps. None: nothing.
  std::function<void(Stream&, const schedule::Instruction&)> after;
};

/// Of two steps that may be under way, by Instruction::step: the number of its first micro-batch in the run,
/// and where its stamps go.
struct StepsUnderWay {
  std::array<uint64_t, 2> first_micro_batch{};
  std::array<std::span<Stamp>, 2> stamps{};
};

/// Enqueues a rank's list, instruction by instruction, on the streams of its lanes, joined by events. It
/// knows no schedule, and never waits: a full stream alone holds it up.
class Executor {
 public:
  Executor(Device& device, ExecutorParts parts);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Stream& stream(Lane lane) { return *streams_[static_cast<size_t>(lane)]; }

  /// Runs the list behind the work that is on the compute stream. The list before it was waited for
  /// (synchronize). `stamps`: one an instruction, written until the work is done.
  void run(const StepList& list, std::span<Stamp> stamps);
  /// A list behind another that may not have ended: lanes go on as they come to it. `opens`: behind work on
  /// the compute stream, as the other.
  void run(const StepList& list, const StepsUnderWay& steps, bool opens);
  /// Waits for all lanes; throws what any of them ran into.
  void synchronize();
  /// Waits until nothing is enqueued; forgets what went wrong. After an error.
  void run_out() noexcept;
  /// What it did last and does now: for other threads, and beyond its own end.
  std::shared_ptr<const FlightRecord> flights() const { return flights_; }

 private:
  /// The instruction's slots and buffers.
  struct Places {
    model::SlotIds slots;
    schedule::Buffer input;
    schedule::Buffer output;
  };
  static Places places_of(const Step& step, const Turns* turns, const StepsUnderWay& steps);
  /// Enqueues a step on its lane, with its waits and stamps.
  void take(const Step& step, const Places& places, Stamp& stamp);
  void enqueue(const Step& step, const Places& places, Stream& stream, Stamp& stamp);
  void compute(const Step& step, const Places& places, Stream& stream, Stamp& stamp);
  const Tensor& buffer(const schedule::Buffer& at) const;

  Device& device_;
  ExecutorParts parts_;
  std::array<std::unique_ptr<Stream>, lane_count> streams_;
  std::unique_ptr<Event> opened_;
  std::shared_ptr<FlightRecord> flights_;
};

}  // namespace penstock::runtime
