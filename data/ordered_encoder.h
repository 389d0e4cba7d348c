#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "data/tokenizer.h"

namespace penstock::data {

/// Encodes texts in several threads and hands their tokens out in the order of the texts, each text as an
/// Encoder would encode it alone. Texts are gathered to batches of `batch_bytes`, of which a few for each
/// thread are under way, at most 64 MiB of text and one batch: memory does not grow with the input.
class OrderedEncoder {
 public:
  static constexpr size_t batch_bytes = size_t{256} << 10;

  /// Called in the thread of add() and finish(), with the text's tag; the tokens are valid until it returns.
  using Take = std::function<void(std::span<const int32_t> tokens, uint64_t tag)>;

  /// `tokenizer` must outlive this. One thread: the caller's own.
  OrderedEncoder(const Tokenizer& tokenizer, size_t threads, Take take);
  /// Drops what was not handed out.
  ~OrderedEncoder();
  OrderedEncoder(const OrderedEncoder&) = delete;
  OrderedEncoder& operator=(const OrderedEncoder&) = delete;

  /// Copies `text`; waits while enough is under way. Throws what encoding an earlier text threw.
  void add(std::string_view text, uint64_t tag);
  /// Hands out all that was added. Throws what encoding threw.
  void finish();

  /// As many as the processors that this process may run on.
  static size_t usual_threads();

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace penstock::data
