#include "kernels/cuda/gemm_product.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/gemm_operation.h"
#include "kernels/cuda/pointwise_kernels.h"
#include "kernels/cuda/with_element.h"
#include "kernels/device/arena.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

class LtProduct final : public GemmProduct {
 public:
  LtProduct(cublasLtHandle_t library, const GemmShape& shape, const GemmPlan& plan)
      : operation_(library, shape, plan.bias_in_epilogue), plan_(plan) {
    operation_.check(plan);
    // The library's epilogue takes a bias of the output's type only.
    if (operation_.bias_in_epilogue() && shape.out != DType::fp32) {
      bias_bytes_ = aligned(static_cast<size_t>(shape.columns) * size_of(shape.out));
    }
  }

  size_t workspace_bytes() const override { return bias_bytes_ + plan_.workspace_bytes; }

  void run(Stream& stream, const void* a, const void* b, const float* bias, void* y,
           void* workspace) override {
    const GemmShape& shape = operation_.shape();
    const StreamHandle handle = handle_of(stream);
    const void* added = bias;
    if (bias_bytes_ > 0) {
      with_element(shape.out,
                   [&]<class T>(T) { convert(handle, bias, static_cast<T*>(workspace), shape.columns); });
      added = workspace;
    }
    operation_.enqueue(handle, plan_, a, b, added, y, static_cast<char*>(workspace) + bias_bytes_);
    if (shape.bias && !operation_.bias_in_epilogue()) {
      with_element(shape.out, [&]<class T>(T) {
        add_bias(handle, bias, static_cast<T*>(y), shape.rows, shape.columns);
      });
    }
  }

 private:
  GemmOperation operation_;
  GemmPlan plan_;
  size_t bias_bytes_ = 0;  ///< of the bias in the output's type, before the algorithm's own workspace
};

/// Memory for one run of a product, in the device's workspace arena.
struct TrialMemory {
  TrialMemory(Device& of, const GemmShape& shape, size_t workspace_bytes) : device(of) {
    const auto bytes = [](int64_t rows, int64_t columns, DType dtype) {
      return static_cast<size_t>(rows * columns) * size_of(dtype);
    };
    const size_t a_bytes = bytes(shape.rows, shape.depth, shape.in);
    const size_t b_bytes = bytes(shape.depth, shape.columns, shape.in);
    const size_t bias_bytes = bytes(1, shape.columns, DType::fp32);
    const size_t y_bytes = bytes(shape.rows, shape.columns, shape.out);
    Arena& arena =
        device.create_arena(ArenaTag::workspace, aligned(a_bytes) + aligned(b_bytes) + aligned(bias_bytes) +
                                                     aligned(y_bytes) + aligned(workspace_bytes));
    a = arena.allocate("a", a_bytes);
    b = arena.allocate("b", b_bytes);
    bias = static_cast<float*>(arena.allocate("bias", bias_bytes));
    y = arena.allocate("y", y_bytes);
    workspace = arena.allocate("workspace", workspace_bytes);
  }
  ~TrialMemory() { device.destroy_arena(ArenaTag::workspace); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;

  Device& device;
  void* a;
  void* b;
  float* bias;
  void* y;
  void* workspace;
};

constexpr int warm_up_runs = 2;
constexpr int timed_runs = 8;

class LtLibrary final : public GemmLibrary {
 public:
  LtLibrary(Device& device, GemmOptions options)
      : device_(device),
        options_(std::move(options)),
        plans_({.library_version = cublasLtGetVersion(),
                .driver_version = options_.driver_version,
                .device = device.description()}) {
    cublasLtHandle_t made = nullptr;
    check_cublas(cublasLtCreate(&made), "cublasLtCreate on", device.description());
    library_.reset(made);
  }

  const GemmOptions& options() const override { return options_; }
  GemmPlans& plans() override { return plans_; }

  std::unique_ptr<GemmProduct> plan(const GemmShape& shape) override {
    if (const GemmPlan* known = plans_.find(shape); known != nullptr) return product(shape, *known);
    if (plans_.sealed()) {
      throw DeviceError(
          fmt::format("matrix product {} is not among the {} that were planned for all ranks; expected every "
                      "product of the "
                      "whole model there",
                      to_string(shape), plans_.table().size()));
    }
    const GemmPlan chosen = choose(shape);
    plans_.insert(shape, chosen);
    if (options_.log) options_.log(fmt::format("matrix product {}: {}", to_string(shape), to_string(chosen)));
    return product(shape, chosen);
  }

 private:
  std::unique_ptr<GemmProduct> product(const GemmShape& shape, const GemmPlan& plan) const {
    return std::make_unique<LtProduct>(library_.get(), shape, plan);
  }

  GemmPlan choose(const GemmShape& shape) {
    std::vector<GemmPlan> proposals;
    for (const bool bias_in_epilogue : {true, false}) {
      if (!bias_in_epilogue && !shape.bias) break;
      const GemmOperation operation(library_.get(), shape, bias_in_epilogue);
      proposals = operation.proposals(options_.workspace_limit, options_.candidates);
      for (GemmPlan& plan : proposals) plan.bias_in_epilogue = bias_in_epilogue;
      if (!proposals.empty()) break;
    }
    if (proposals.empty()) {
      throw DeviceError(fmt::format(
          "matrix product {}: cuBLASLt {} has no algorithm for it on {} that takes at most {} bytes of "
          "workspace "
          "and adds each sum in one piece; another release of cuBLASLt, or sizes that are multiples of 8, "
          "may help",
          to_string(shape), cublasLtGetVersion(), device_.description(), options_.workspace_limit));
    }
    if (options_.candidates == 1) return proposals.front();
    return fastest(shape, proposals);
  }

  GemmPlan fastest(const GemmShape& shape, std::vector<GemmPlan>& proposals) {
    size_t workspace_bytes = 0;
    std::vector<std::unique_ptr<GemmProduct>> products;
    for (const GemmPlan& plan : proposals) {
      products.push_back(product(shape, plan));
      workspace_bytes = std::max(workspace_bytes, products.back()->workspace_bytes());
    }
    const TrialMemory memory(device_, shape, workspace_bytes);
    const auto stream = device_.create_stream("matmul trials", StreamUse::compute);
    Arena& arena = device_.arena(ArenaTag::workspace);
    stream->fill_zero(memory.a, arena.used());  // it starts the arena
    for (size_t i = 0; i < proposals.size(); ++i) {
      const auto run = [&] {
        products[i]->run(*stream, memory.a, memory.b, memory.bias, memory.y, memory.workspace);
      };
      double start = 0;
      double end = 0;
      for (int n = 0; n < warm_up_runs; ++n) run();
      stream->stamp(&start);
      for (int n = 0; n < timed_runs; ++n) run();
      stream->stamp(&end);
      stream->synchronize();
      proposals[i].seconds = (end - start) / timed_runs;
    }
    return *std::min_element(proposals.begin(), proposals.end(),
                             [](const GemmPlan& a, const GemmPlan& b) { return a.seconds < b.seconds; });
  }

  Device& device_;
  GemmOptions options_;
  GemmPlans plans_;
  LtHandle library_;
};

}  // namespace

std::shared_ptr<GemmLibrary> GemmLibrary::create(Device& device, GemmOptions options) {
  if (options.candidates < 1) {
    throw UsageError(
        fmt::format("matrix products: candidates is {}; expected at least 1", options.candidates));
  }
  return std::make_shared<LtLibrary>(device, std::move(options));
}

}  // namespace penstock::cuda
