#include "kernels/transport/mpi/mpi_shared.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "kernels/device/bfloat16.h"
#include "kernels/device/error.h"
#include "kernels/device/float16.h"
#include "kernels/transport/mpi/mpi_call.h"

namespace penstock::transport {
namespace {

// MPI_User_function takes what it only reads through plain pointers. T is stored, fp32 is computed in.
template <class T, float (*combine)(float, float)>
void combine_narrow(void* in, void* in_out, int* length, MPI_Datatype* /*type*/) {
  const auto* const from = static_cast<const T*>(in);
  auto* const to = static_cast<T*>(in_out);
  for (int i = 0; i < *length; ++i)
    to[i] = T(combine(static_cast<float>(from[i]), static_cast<float>(to[i])));
}

float sum(float a, float b) {
  return a + b;
}
float maximum(float a, float b) {
  return std::max(a, b);
}
float minimum(float a, float b) {
  return std::min(a, b);
}

template <class T>
std::array<MPI_Op, 3> narrow_operations(std::string_view type) {
  const std::array<MPI_User_function*, 3> functions{combine_narrow<T, sum>, combine_narrow<T, maximum>,
                                                    combine_narrow<T, minimum>};
  std::array<MPI_Op, 3> operations{};
  for (size_t i = 0; i < functions.size(); ++i) {
    check_mpi("MPI_Op_create", MPI_Op_create(functions[i], 1, &operations[i]),
              [type] { return fmt::format("making the reductions of {}", type); });
  }
  return operations;
}

}  // namespace

MpiShared::MpiShared(const MpiOptions& options, bool crowded)
    : options_(options),
      crowded_(crowded),
      interruption_(std::make_shared<Interruption>([this] { turns_.notify_all(); })) {
  constexpr size_t most_bytes = (size_t{1} << 31) - 8;
  if (options_.piece_bytes < 8 || options_.piece_bytes > most_bytes) {
    throw UsageError(
        fmt::format("MPI pieces of {} bytes; 8 to {} can be sent at once", options_.piece_bytes, most_bytes));
  }
  bf16_operations_ = narrow_operations<bfloat16>("bf16");
  fp16_operations_ = narrow_operations<float16>("fp16");
}

MpiShared::~MpiShared() {
  for (auto* operations : {&bf16_operations_, &fp16_operations_}) {
    for (MPI_Op& operation : *operations) MPI_Op_free(&operation);
  }
}

MPI_Op MpiShared::operation(DType dtype, Reduction reduction) const {
  if (dtype == DType::bf16) return bf16_operations_[static_cast<size_t>(reduction)];
  if (dtype == DType::fp16) return fp16_operations_[static_cast<size_t>(reduction)];
  switch (reduction) {
    case Reduction::sum:
      return MPI_SUM;
    case Reduction::maximum:
      return MPI_MAX;
    case Reduction::minimum:
      return MPI_MIN;
  }
  return MPI_OP_NULL;
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return MPI_FLOAT;
    case DType::fp64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::bf16:
    case DType::fp16:
      return MPI_UINT16_T;
    case DType::u8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

}  // namespace penstock::transport
