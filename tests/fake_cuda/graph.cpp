// Capture and replay. A graph keeps the work in the order in which the host queued it, and replays it so.
#include <memory>
#include <utility>

#include "tests/fake_cuda/stream.h"

namespace penstock::fake_cuda {

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (const cudaError_t code = entered("cudaStreamBeginCapture", stream->gpu); code != cudaSuccess)
    return code;
  if (stream->capture != nullptr) return noted(cudaErrorIllegalState);
  auto graph = std::make_unique<CUgraph_st>();
  graph->streams.push_back(stream);
  stream->capture = graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return entered("cudaStreamIsCapturing", stream->gpu);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const cudaError_t planned = entered("cudaStreamEndCapture", stream->gpu);
  if (stream->capture == nullptr || stream->capture->streams.front() != stream)
    return noted(cudaErrorStreamCaptureUnmatched);
  std::unique_ptr<CUgraph_st> captured(stream->capture);
  for (cudaStream_t each : captured->streams) each->capture = nullptr;
  if (planned != cudaSuccess) return planned;  // the capture has ended all the same
  if (captured->invalid) return noted(cudaErrorStreamCaptureInvalidated);
  *graph = captured.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long /*flags*/) {
  if (const cudaError_t code = entered("cudaGraphInstantiate", -1); code != cudaSuccess) return code;
  *made = new CUgraphExec_st{std::make_shared<const std::vector<Work>>(graph->nodes)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (const cudaError_t code = entered("cudaGraphLaunch", stream->gpu); code != cudaSuccess) return code;
  ++state().graph_launches;
  stream->enqueue({[nodes = graph->nodes] {
    for (const Work& node : *nodes) node.run();
  }});
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return entered("cudaGraphDestroy", -1);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return entered("cudaGraphExecDestroy", -1);
}

}  // extern "C"

}  // namespace penstock::fake_cuda
