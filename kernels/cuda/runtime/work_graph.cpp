#include "kernels/cuda/runtime/work_graph.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

class CudaGraph final : public WorkGraph {
 public:
  CudaGraph(cudaGraph_t captured, const std::string& stream) {
    check(cudaGraphInstantiate(&graph_, captured, 0),
          [&] { return fmt::format("stream \"{}\": preparing a captured graph", stream); });
  }
  ~CudaGraph() override {
    report(cudaGraphExecDestroy(graph_), [] { return "destroying a graph"; });
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(Stream& stream) override {
    check(cudaGraphLaunch(graph_, CudaStream::of(stream).ready()),
          [&] { return fmt::format("stream \"{}\": launching a graph", stream.name()); });
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<WorkGraph> capture_graph(CudaStream& stream, const std::function<void()>& queue) {
  stream.begin_capture();
  try {
    queue();
  } catch (...) {
    stream.abandon_capture();
    throw;
  }
  cudaGraph_t captured = stream.end_capture();
  const auto destroy = [&] {
    report(cudaGraphDestroy(captured), [] { return "destroying a captured graph"; });
  };
  try {
    auto graph = std::make_unique<CudaGraph>(captured, stream.name());
    destroy();
    return graph;
  } catch (...) {
    destroy();
    throw;
  }
}

}  // namespace penstock::cuda
