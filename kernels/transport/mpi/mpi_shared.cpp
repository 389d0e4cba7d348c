#include "kernels/transport/mpi/mpi_shared.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/bfloat16.h"
#include "kernels/device/error.h"
#include "kernels/transport/mpi/mpi_call.h"

namespace penstock::transport {
namespace {

template <class Combine>
void combine_bf16(const void* in, void* in_out, int length, Combine combine) {
  const auto* const from = static_cast<const bfloat16*>(in);
  auto* const to = static_cast<bfloat16*>(in_out);
  for (int i = 0; i < length; ++i)
    to[i] = bfloat16(combine(static_cast<float>(from[i]), static_cast<float>(to[i])));
}

// MPI_User_function takes what it only reads through plain pointers.
void sum_bf16(void* in, void* in_out, int* length, MPI_Datatype*) {
  combine_bf16(in, in_out, *length, [](float a, float b) { return a + b; });
}
void maximum_bf16(void* in, void* in_out, int* length, MPI_Datatype*) {
  combine_bf16(in, in_out, *length, [](float a, float b) { return std::max(a, b); });
}
void minimum_bf16(void* in, void* in_out, int* length, MPI_Datatype*) {
  combine_bf16(in, in_out, *length, [](float a, float b) { return std::min(a, b); });
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
  const std::array<MPI_User_function*, 3> functions{sum_bf16, maximum_bf16, minimum_bf16};
  for (size_t i = 0; i < functions.size(); ++i) {
    check_mpi("MPI_Op_create", MPI_Op_create(functions[i], 1, &bf16_operations_[i]),
              [] { return std::string("making the reductions of bf16"); });
  }
}

MpiShared::~MpiShared() {
  for (MPI_Op& operation : bf16_operations_) MPI_Op_free(&operation);
}

MPI_Op MpiShared::operation(DType dtype, Reduction reduction) const {
  if (dtype == DType::bf16) return bf16_operations_[static_cast<size_t>(reduction)];
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
