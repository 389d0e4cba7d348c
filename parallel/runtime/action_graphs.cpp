#include "parallel/runtime/action_graphs.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

void ActionGraphs::queue(Stream& stream, const GraphKey& key, const std::function<void()>& work) {
  Entry& entry = entries_[key];
  if (entry.calls++ == 1 && !entry.refused) {
    try {
      entry.graph = device_.capture(stream, work);
      ++captured_;
    } catch (const DeviceError& error) {
      entry.refused = true;  // and if the device is broken, queueing says so
      if (!noted_) {
        note_ = fmt::format("cuda.graphs: {} of stage {} is launched kernel by kernel: {}", letter(key.op),
                            stage_, error.what());
      }
      noted_ = true;
    }
  }
  if (entry.graph) {
    entry.graph->launch(stream);
  } else {
    work();
  }
}

}  // namespace penstock::runtime
