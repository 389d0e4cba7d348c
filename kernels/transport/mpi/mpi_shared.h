#pragma once

#include <array>
#include <memory>
#include <string>

#include <mpi.h>

#include "kernels/cpu/wait_point.h"
#include "kernels/device/dtype.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/interruption.h"
#include "kernels/transport/mpi_world.h"

namespace penstock::transport {

/// What the communicators of this process share: options, the stop, and the reductions that MPI has not.
class MpiShared {
 public:
  /// `crowded`: as for Patience.
  MpiShared(const MpiOptions& options, bool crowded);
  ~MpiShared();
  MpiShared(const MpiShared&) = delete;
  MpiShared& operator=(const MpiShared&) = delete;

  const MpiOptions& options() const { return options_; }
  bool crowded() const { return crowded_; }
  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  /// Where operations wait for their turn; roused when the world stops.
  cpu::WaitPoint& turns() { return turns_; }
  /// bf16 and fp16 have operations of their own, on MPI_UINT16_T.
  MPI_Op operation(DType dtype, Reduction reduction) const;

 private:
  const MpiOptions options_;
  const bool crowded_;
  cpu::WaitPoint turns_;
  std::shared_ptr<Interruption> interruption_;
  std::array<MPI_Op, 3> bf16_operations_;
  std::array<MPI_Op, 3> fp16_operations_;
};

/// The MPI type of an element: as wide as `dtype` is, and of its kind where MPI computes with it.
MPI_Datatype mpi_type(DType dtype);

}  // namespace penstock::transport
