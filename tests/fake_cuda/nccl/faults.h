#pragma once

#include <string>

#include <nccl.h>

/// The fake NCCL exports the calls that the transport makes, over enqueue_communication(): operations of a
/// communicator run one after another, whatever the streams; kernels need one of the GPU's places; with
/// NCCL_LAUNCH_ORDER_IMPLICIT = 1 a kernel starts after those that were launched before it on its GPU; the
/// first message between two ranks, and the first collective, are connected when both hosts have asked for
/// it, and calls are in progress until then. Settings::buffered: a send completes without its receive. Sums
/// are added from the last rank down, which is nobody's order. What NCCL leaves undefined (sizes that differ,
/// memory that a GPU cannot read) loses the context and says why.
namespace penstock::fake_nccl {

/// Forgets planned faults. No communicator may be alive.
void reset();
/// The next call of `call` ("ncclSend") returns `result` and does nothing.
void fail_call(const std::string& call, ncclResult_t result);
/// From now on every communicator of this GPU answers ncclCommGetAsyncError with `result`.
void break_communicators(int gpu, ncclResult_t result);
/// ncclCommAbort ends kernels, but does not return until let_aborts_return().
void hold_aborts();
void let_aborts_return();
/// The version that ncclGetVersion tells.
void set_version(int version);

/// Communicators that were neither destroyed nor aborted.
int communicators();
/// Calls of ncclCommAbort since reset().
int aborts();

}  // namespace penstock::fake_nccl
