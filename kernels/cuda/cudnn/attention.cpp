// The only source that knows cuDNN. Its library is opened at start, not linked: a machine may have none.
#include <array>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/stream_handle.h"
#include "kernels/device/error.h"
#include "kernels/math/attention_check.h"

namespace cudnn_frontend {
/// The front end takes its functions from here.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace penstock::cuda {
namespace {

namespace frontend = cudnn_frontend;
using frontend::graph::Graph;
using frontend::graph::Tensor_attributes;
using math::AttentionShape;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

/// Numbers of the graphs' tensors; runs pass pointers in this order.
enum Uid : int64_t { uid_q = 1, uid_k, uid_v, uid_out, uid_lse, uid_dout, uid_dq, uid_dk, uid_dv };

void check(frontend::error_t error, const char* doing, const AttentionShape& shape) {
  if (error.is_good()) return;
  throw DeviceError(fmt::format(
      "cuDNN attention of {} sequences of {} tokens, {} heads over {} of {} channels: "
      "{}: {}",
      shape.batch, shape.tokens, shape.heads, shape.kv_heads, shape.head_dim, doing, error.get_message()));
}

/// The library and its handle on the current device.
class Cudnn {
 public:
  Cudnn() {
    // Else the front end looks for older ones first.
    const std::string runtime = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
    const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
    if (frontend::cudnn_dlhandle == nullptr) frontend::cudnn_dlhandle = dlopen(name.c_str(), RTLD_NOW);
    if (frontend::cudnn_dlhandle == nullptr) {
      throw DeviceError(fmt::format("cuDNN does not load: {}", dlerror()));
    }
    const cudnnStatus_t status = frontend::detail::create_handle(&handle_);
    if (status != CUDNN_STATUS_SUCCESS) {
      throw DeviceError(
          fmt::format("cudnnCreate of {}: {}", name, frontend::detail::get_error_string(status)));
    }
  }
  ~Cudnn() { frontend::detail::destroy_handle(handle_); }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  void use(StreamHandle stream) const {
    const cudnnStatus_t status = frontend::detail::set_stream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
      throw DeviceError(fmt::format("cudnnSetStream: {}", frontend::detail::get_error_string(status)));
    }
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

frontend::DataType_t type_of(const AttentionShape& shape) {
  return shape.dtype == DType::fp16 ? frontend::DataType_t::HALF : frontend::DataType_t::BFLOAT16;
}

/// B sequences of T rows of `row` elements, `heads` heads of them, as cuDNN counts them.
Tensor_attributes tensor(const char* name, int64_t uid, const AttentionShape& shape, int64_t heads,
                         int64_t row) {
  return Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_data_type(type_of(shape))
      .set_dim({shape.batch, heads, shape.tokens, shape.head_dim})
      .set_stride({shape.tokens * row, shape.head_dim, row, 1});
}
Tensor_attributes lse_tensor(const AttentionShape& shape) {
  return Tensor_attributes()
      .set_name("lse")
      .set_uid(uid_lse)
      .set_data_type(frontend::DataType_t::FLOAT)
      .set_dim({shape.batch, shape.heads, shape.tokens, 1})
      .set_stride({shape.heads * shape.tokens, shape.tokens, 1, 1});
}

/// Elements of a row of qkv and of out.
int64_t qkv_row(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}
int64_t out_row(const AttentionShape& shape) {
  return shape.heads * shape.head_dim;
}

/// Forward and backward pass of one shape.
class Graphs {
 public:
  Graphs(const Cudnn& cudnn, const AttentionShape& shape) : shape_(shape) {
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
    build_forward(scale);
    build_backward(scale);
    for (Graph* graph : {&forward_, &backward_}) plan(*graph, cudnn);
  }

  size_t workspace_bytes() const { return workspace_bytes_; }

  void forward(const Cudnn& cudnn, Tensor qkv, Tensor out, Tensor lse, void* workspace) const {
    std::array<void*, 5> pointers = {part(qkv, 0), part(qkv, shape_.heads),
                                     part(qkv, shape_.heads + shape_.kv_heads), out.data, lse.data};
    run(forward_, cudnn, pointers, workspace, "forward");
  }
  void backward(const Cudnn& cudnn, Tensor dout, Tensor qkv, Tensor out, Tensor lse, Tensor dqkv,
                void* workspace) const {
    std::array<void*, 9> pointers = {part(qkv, 0),
                                     part(qkv, shape_.heads),
                                     part(qkv, shape_.heads + shape_.kv_heads),
                                     out.data,
                                     lse.data,
                                     dout.data,
                                     part(dqkv, 0),
                                     part(dqkv, shape_.heads),
                                     part(dqkv, shape_.heads + shape_.kv_heads)};
    run(backward_, cudnn, pointers, workspace, "backward");
  }

 private:
  void prepare(Graph& graph, const char* name) const {
    graph.set_name(name)
        .set_io_data_type(type_of(shape_))
        .set_intermediate_data_type(frontend::DataType_t::FLOAT)
        .set_compute_data_type(frontend::DataType_t::FLOAT);
  }
  TensorPtr place(Graph& graph, const char* name, int64_t uid, int64_t heads) const {
    return graph.tensor(tensor(name, uid, shape_, heads, qkv_row(shape_)));
  }
  /// As tensor() has it.
  static void output(const TensorPtr& made, const Tensor_attributes& like) {
    made->set_output(true)
        .set_uid(like.get_uid())
        .set_data_type(like.get_data_type())
        .set_dim(like.get_dim())
        .set_stride(like.get_stride());
  }

  void build_forward(float scale) {
    prepare(forward_, "attention forward");
    auto [out, lse] =
        forward_.sdpa(place(forward_, "q", uid_q, shape_.heads), place(forward_, "k", uid_k, shape_.kv_heads),
                      place(forward_, "v", uid_v, shape_.kv_heads),
                      frontend::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_attn_scale(scale)
                          .set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
                          .set_diagonal_band_right_bound(0));
    output(out, tensor("out", uid_out, shape_, shape_.heads, out_row(shape_)));
    output(lse, lse_tensor(shape_));
  }

  void build_backward(float scale) {
    prepare(backward_, "attention backward");
    auto [dq, dk, dv] = backward_.sdpa_backward(
        place(backward_, "q", uid_q, shape_.heads), place(backward_, "k", uid_k, shape_.kv_heads),
        place(backward_, "v", uid_v, shape_.kv_heads),
        backward_.tensor(tensor("out", uid_out, shape_, shape_.heads, out_row(shape_))),
        backward_.tensor(tensor("dout", uid_dout, shape_, shape_.heads, out_row(shape_))),
        backward_.tensor(lse_tensor(shape_)),
        frontend::graph::SDPA_backward_attributes()
            .set_name("attention backward")
            .set_attn_scale(scale)
            .set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
            .set_diagonal_band_right_bound(0)
            .set_deterministic_algorithm(true));
    output(dq, tensor("dq", uid_dq, shape_, shape_.heads, qkv_row(shape_)));
    output(dk, tensor("dk", uid_dk, shape_, shape_.kv_heads, qkv_row(shape_)));
    output(dv, tensor("dv", uid_dv, shape_, shape_.kv_heads, qkv_row(shape_)));
  }

  void plan(Graph& graph, const Cudnn& cudnn) {
    check(graph.validate(), "validation", shape_);
    check(graph.build_operation_graph(cudnn.handle()), "operation graph", shape_);
    check(graph.create_execution_plans({frontend::HeurMode_t::A}), "heuristics", shape_);
    check(graph.check_support(), "no supported plan", shape_);
    check(graph.build_plans(), "building the plan", shape_);
    int64_t bytes = 0;
    check(graph.get_workspace_size(bytes), "workspace", shape_);
    workspace_bytes_ = std::max(workspace_bytes_, static_cast<size_t>(bytes));
  }

  /// From a row's head on.
  void* part(const Tensor& rows, int64_t head) const {
    return rows.as<char>() + static_cast<size_t>(head * shape_.head_dim) * size_of(shape_.dtype);
  }

  template <size_t N>
  void run(const Graph& graph, const Cudnn& cudnn, std::array<void*, N>& pointers, void* workspace,
           const char* doing) const {
    check(graph.execute(cudnn.handle(), pointers.data(), static_cast<int>(N), workspace), doing, shape_);
  }

  AttentionShape shape_;
  Graph forward_;
  Graph backward_;
  size_t workspace_bytes_ = 0;
};

class CudnnPlan final : public math::AttentionPlan {
 public:
  CudnnPlan(std::shared_ptr<const Cudnn> cudnn, std::shared_ptr<const Graphs> graphs,
            const AttentionShape& shape)
      : cudnn_(std::move(cudnn)), graphs_(std::move(graphs)), shape_(shape) {}

  const AttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return graphs_->workspace_bytes(); }

  void forward(Stream& stream, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor workspace) override {
    math::check_attention_forward(shape_, workspace_bytes(), qkv, starts, out, lse, workspace);
    refuse(starts);
    cudnn_->use(handle_of(stream));
    graphs_->forward(*cudnn_, qkv, out, lse, workspace.data);
  }

  void backward(Stream& stream, Tensor dout, Tensor qkv, Tensor starts, Tensor out, Tensor lse, Tensor dqkv,
                Tensor workspace) override {
    math::check_attention_backward(shape_, workspace_bytes(), dout, qkv, starts, out, lse, dqkv, workspace);
    refuse(starts);
    cudnn_->use(handle_of(stream));
    graphs_->backward(*cudnn_, dout, qkv, out, lse, dqkv, workspace.data);
  }

 private:
  static void refuse(const Tensor& starts) {
    if (starts) throw UsageError("attention by cuDNN takes no document borders (starts)");
  }

  std::shared_ptr<const Cudnn> cudnn_;
  std::shared_ptr<const Graphs> graphs_;
  AttentionShape shape_;
};

class CudnnAttentions final : public math::Attention {
 public:
  explicit CudnnAttentions(std::shared_ptr<const Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}

  math::Support supports(const AttentionShape& shape) const override {
    if (math::Support support = math::check_attention_shape(shape); !support) return support;
    if (shape.dtype != DType::bf16 && shape.dtype != DType::fp16) {
      return math::Support::no(
          fmt::format("cuDNN's attention is for bf16 and fp16, not {}", name_of(shape.dtype)));
    }
    if (shape.head_dim % 8 != 0) {
      return math::Support::no(
          fmt::format("cuDNN's attention has heads of multiples of 8 channels, not {}", shape.head_dim));
    }
    try {
      graphs(shape);  // only the library knows
    } catch (const std::exception& error) {
      return math::Support::no(error.what());
    }
    return math::Support::yes();
  }

  std::unique_ptr<math::AttentionPlan> plan(const AttentionShape& shape) override {
    if (const math::Support support = supports(shape); !support) {
      throw DeviceError("attention: " + support.reason);
    }
    return std::make_unique<CudnnPlan>(cudnn_, graphs(shape), shape);
  }

 private:
  std::shared_ptr<const Graphs> graphs(const AttentionShape& shape) const {
    const Key key{shape.batch, shape.tokens, shape.heads, shape.kv_heads, shape.head_dim, shape.dtype};
    std::shared_ptr<const Graphs>& made = made_[key];
    if (!made) made = std::make_shared<Graphs>(*cudnn_, shape);
    return made;
  }

  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, DType>;
  std::shared_ptr<const Cudnn> cudnn_;
  mutable std::map<Key, std::shared_ptr<const Graphs>> made_;
};

}  // namespace

OptionalAttention make_cudnn_attention(Device& /*device*/) {
  try {
    auto cudnn = std::make_shared<const Cudnn>();
    return {.attention = std::make_unique<CudnnAttentions>(std::move(cudnn)),
            .description = fmt::format(
                "cuDNN {}, front end {}.{}.{}", frontend::detail::get_backend_version_string(),
                CUDNN_FRONTEND_MAJOR_VERSION, CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION)};
  } catch (const std::exception& error) {
    return {.attention = nullptr, .description = error.what()};
  }
}

}  // namespace penstock::cuda
