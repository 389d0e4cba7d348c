#include "kernels/transport/mpi/mpi_exchange.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/mpi/mpi_call.h"
#include "kernels/transport/mpi/patience.h"

namespace penstock::transport {
namespace {

constexpr size_t head_bytes = 4096;
constexpr size_t long_bytes = 128 * 1024;  ///< shorter messages are one piece: they are there in a few polls

/// MPI promises tags up to 32767. One pair never has so many messages in flight, so wrapping is harmless.
int tag_of(const Transfer& transfer) {
  constexpr uint32_t tags = 1u << 15;
  return static_cast<int>(transfer.sequence % tags);
}

/// A posted piece of a message.
struct Piece {
  const Transfer* transfer = nullptr;
  size_t bytes = 0;
  bool head = false;  ///< the first of several
};

class Exchange {
 public:
  Exchange(const MpiShared& shared, const Identity& who, MPI_Comm comm)
      : shared_(shared), who_(who), comm_(comm) {}
  ~Exchange() {
    for (MPI_Request& request : requests_) {
      // Only after an error. Receives are cancelled, so that nothing is written to memory that is given back.
      if (request == MPI_REQUEST_NULL) continue;
      if (!pieces_[static_cast<size_t>(&request - requests_.data())].transfer->sends) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void run(const TransferGroup& group) {
    count(group);
    for (const Transfer& transfer : group.all())
      if (!transfer.sends) post(transfer);
    for (const Transfer& transfer : group.all())
      if (transfer.sends) post(transfer);
    Patience patience(shared_.crowded());
    size_t open = requests_.size();
    size_t flowing = 0;
    while (open > 0) {
      int completed = 0;
      const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                                    indices_.data(), statuses_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        throw_mpi_error("MPI_Testsome", code, who_.label());
      for (int i = 0; i < completed; ++i) {
        const Piece& piece = pieces_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
        check(piece, statuses_[static_cast<size_t>(i)], code);
        if (piece.head) {
          flowing += piece.transfer->bytes - piece.bytes;
        } else if (piece.bytes != piece.transfer->bytes) {
          flowing -= std::min(flowing, piece.bytes);
        }
      }
      open -= static_cast<size_t>(completed);
      if (completed > 0) {
        patience.moved();
        continue;
      }
      if (shared_.interruption()->stopped()) give_up();
      patience.pause(flowing);
    }
  }

 private:
  size_t first_bytes(const Transfer& transfer) const {
    return transfer.bytes >= long_bytes ? std::min(head_bytes, shared_.options().piece_bytes)
                                        : std::min(transfer.bytes, shared_.options().piece_bytes);
  }

  void count(const TransferGroup& group) {
    size_t pieces = 0;
    for (const Transfer& transfer : group.all()) {
      const size_t rest = transfer.bytes - first_bytes(transfer);
      pieces += 1 + (rest + shared_.options().piece_bytes - 1) / shared_.options().piece_bytes;
    }
    if (pieces > in_place) {
      many_requests_.resize(pieces);
      many_pieces_.resize(pieces);
      many_indices_.resize(pieces);
      many_statuses_.resize(pieces);
      requests_ = many_requests_;
      pieces_ = many_pieces_;
      indices_ = many_indices_;
      statuses_ = many_statuses_;
    } else {
      requests_ = std::span(few_requests_).first(pieces);
      pieces_ = std::span(few_pieces_).first(pieces);
      indices_ = std::span(few_indices_).first(pieces);
      statuses_ = std::span(few_statuses_).first(pieces);
    }
    std::fill(requests_.begin(), requests_.end(), MPI_REQUEST_NULL);
  }

  void post(const Transfer& transfer) {
    size_t at = 0;
    do {
      const size_t bytes =
          at == 0 ? first_bytes(transfer) : std::min(transfer.bytes - at, shared_.options().piece_bytes);
      Piece& piece = pieces_[posted_];
      piece = {&transfer, bytes, at == 0 && bytes < transfer.bytes};
      start(piece, transfer.data + at, requests_[posted_]);
      ++posted_;
      at += bytes;
    } while (at < transfer.bytes);
  }

  void start(const Piece& piece, std::byte* data, MPI_Request& request) {
    const Transfer& transfer = *piece.transfer;
    const int bytes = static_cast<int>(piece.bytes);
    const int tag = tag_of(transfer);
    if (!transfer.sends) {
      check_mpi("MPI_Irecv", MPI_Irecv(data, bytes, MPI_BYTE, transfer.peer, tag, comm_, &request),
                [&] { return doing(transfer); });
    } else if (piece.head || shared_.options().synchronous_sends) {
      check_mpi("MPI_Issend", MPI_Issend(data, bytes, MPI_BYTE, transfer.peer, tag, comm_, &request),
                [&] { return doing(transfer); });
    } else {
      check_mpi("MPI_Isend", MPI_Isend(data, bytes, MPI_BYTE, transfer.peer, tag, comm_, &request),
                [&] { return doing(transfer); });
    }
  }

  void check(const Piece& piece, MPI_Status& status, int code) const {
    const Transfer& transfer = *piece.transfer;
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
      throw DeviceError(fmt::format(
          "{}: {}; if the message was truncated, sender and receiver name tensors of different sizes",
          doing(transfer), mpi_error_text("MPI_Testsome", status.MPI_ERROR)));
    }
    if (transfer.sends) return;
    int received = 0;
    check_mpi("MPI_Get_count", MPI_Get_count(&status, MPI_BYTE, &received), [&] { return doing(transfer); });
    if (static_cast<size_t>(received) != piece.bytes) {
      throw DeviceError(
          fmt::format("{}: {} bytes came where {} were expected; both sides must name the same tensor",
                      doing(transfer), received, piece.bytes));
    }
  }

  std::string doing(const Transfer& transfer) const {
    return fmt::format("{}: exchange: {} of {} bytes {} {} (tag {})", who_.label(),
                       transfer.sends ? "send" : "receive", transfer.bytes, transfer.sends ? "to" : "from",
                       who_.peer_label(transfer.peer), tag_of(transfer));
  }

  [[noreturn]] void give_up() const {
    const auto open = std::find_if(requests_.begin(), requests_.end(),
                                   [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
    const Piece& piece = pieces_[static_cast<size_t>(open - requests_.begin())];
    throw DeviceError(fmt::format("{} will not come to pass: {}", doing(*piece.transfer),
                                  shared_.interruption()->reason()));
  }

  static constexpr size_t in_place = 2 * TransferGroup::in_place;

  const MpiShared& shared_;
  const Identity& who_;
  const MPI_Comm comm_;
  size_t posted_ = 0;
  std::span<MPI_Request> requests_;
  std::span<Piece> pieces_;
  std::span<int> indices_;
  std::span<MPI_Status> statuses_;
  std::array<MPI_Request, in_place> few_requests_;
  std::array<Piece, in_place> few_pieces_;
  std::array<int, in_place> few_indices_;
  std::array<MPI_Status, in_place> few_statuses_;
  std::vector<MPI_Request> many_requests_;
  std::vector<Piece> many_pieces_;
  std::vector<int> many_indices_;
  std::vector<MPI_Status> many_statuses_;
};

}  // namespace

void run_exchange(const MpiShared& shared, const Identity& who, MPI_Comm comm, const TransferGroup& group) {
  Exchange(shared, who, comm).run(group);
}

}  // namespace penstock::transport
