#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/device/work_graph.h"
#include "model/slot.h"
#include "model/unit.h"
#include "parallel/schedule/action.h"

namespace penstock::runtime {

/// All that an action's kernels depend on beside what lies in device memory: equal keys queue equal work.
struct GraphKey {
  schedule::Op op = schedule::Op::forward;
  model::SlotIds slots;
  int output = 0;     ///< boundary buffer
  int gradients = 0;  ///< set; where two steps are under way it says of which
  int version = 0;    ///< of the weights
  model::Pass pass = model::Pass::training;

  friend bool operator<(const GraphKey& a, const GraphKey& b) { return a.parts() < b.parts(); }

 private:
  std::tuple<int, int, int, int, int, int, int, int> parts() const {
    return {static_cast<int>(op),  slots.forward, slots.kept, slots.weight, output, gradients, version,
            static_cast<int>(pass)};
  }
};

/// One stage's actions as graphs: the first time that a key comes its work is queued kernel by kernel, so
/// that all that libraries load lazily is there; the second time it is captured; from then on it is launched
/// as one.
class ActionGraphs {
 public:
  /// `stage`: its number in the model, for errors.
  ActionGraphs(WorkGraphs& device, int stage) : device_(device), stage_(stage) {}

  /// Queues `work` on the stream, this way or that. It reads nothing of the host that differs from call to
  /// call.
  template <class Work>
  void run(Stream& stream, const GraphKey& key, const Work& work) {
    queue(stream, key, std::cref(work));  // by reference: nothing is allocated
  }

  /// Keys that are launched as graphs.
  int64_t captured() const { return captured_; }
  /// Why some are not, once; else empty.
  std::string take_note() { return std::exchange(note_, {}); }

 private:
  struct Entry {
    int64_t calls = 0;
    bool refused = false;
    std::unique_ptr<WorkGraph> graph;
  };

  void queue(Stream& stream, const GraphKey& key, const std::function<void()>& work);

  WorkGraphs& device_;
  const int stage_;
  std::map<GraphKey, Entry> entries_;
  int64_t captured_ = 0;
  bool noted_ = false;
  std::string note_;
};

}  // namespace penstock::runtime
