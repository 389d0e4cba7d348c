#include "parallel/runtime/cached_engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

using transport::receive_from;
using transport::send_to;

namespace {

/// Rows that may be under way: a whole text, cut into passes, the last of which may be padded.
size_t host_rows(const model::CachedModel& model) {
  int64_t most = 0;
  for (size_t pass = 0; pass < model.passes(); ++pass) most = std::max(most, model.rows(pass));
  return static_cast<size_t>(model.cache().positions + most);
}

}  // namespace

CachedEngine::CachedEngine(Device& device, math::Math& math, transport::World& world, PipelinePlan plan,
                           const model::CacheConfig& cache)
    : world_(world),
      plan_(std::move(plan)),
      place_(plan_.topology.place(world.rank())),
      communicators_(make_communicators(world, plan_.topology, 1, {})),
      model_(device, math, plan_.ranks[static_cast<size_t>(place_.pipeline)], cache),
      pass_rows_(model::pass_rows(cache)),
      stream_(device.create_stream("compute", StreamUse::compute)),
      lengths_(static_cast<size_t>(cache.slots), 0) {
  const size_t rows = host_rows(model_);
  const auto slots = static_cast<size_t>(cache.slots);
  const size_t logits = model_.has_head() ? slots * static_cast<size_t>(model_.config().model.vocab_size) : 0;
  host_memory_ = device.create_host_memory("rows and logits of a pass",
                                           (3 * rows + slots) * sizeof(int32_t) + logits * sizeof(float));
  auto* begin = host_memory_->as<int32_t>();
  for (std::span<int32_t>* part : {&tokens_, &positions_, &slots_}) {
    *part = {begin, rows};
    begin += rows;
  }
  told_ = {begin, slots};
  logits_ = {reinterpret_cast<float*>(begin + slots), logits};
  abort_.emplace(world);
}

void CachedEngine::put(size_t row, int32_t token, int64_t position, int64_t slot) {
  tokens_[row] = token;
  positions_[row] = static_cast<int32_t>(position);
  slots_[row] = static_cast<int32_t>(slot);
}

void CachedEngine::hand_on(size_t pass, int stage) {
  if (stage == plan_.last_stage()) return;
  const Tensor out = model_.outgoing(*stream_, pass);
  if (mine(stage + 1)) {
    model_.arrived(*stream_, pass);
  } else {
    communicators_.pipeline->exchange(*stream_, {send_to(owner(stage + 1), out)});
  }
}

void CachedEngine::run(size_t pass, size_t row) {
  model_.take_rows(*stream_, pass, tokens_.data() + row, positions_.data() + row, slots_.data() + row);
  size_t index = 0;
  for (int stage = 0; stage <= plan_.last_stage(); ++stage) {
    if (!mine(stage)) continue;
    if (stage > 0 && !mine(stage - 1)) {
      communicators_.pipeline->exchange(*stream_, {receive_from(owner(stage - 1), model_.incoming(pass))});
      model_.arrived(*stream_, pass);
    }
    model_.forward(*stream_, pass, index++);
    hand_on(pass, stage);
  }
}

void CachedEngine::finish(int64_t first, int64_t count) {
  if (model_.has_head()) {
    const Tensor made = model_.logits(*stream_, count);
    const int64_t vocabulary = made.shape[1];
    stream_->copy(logits_.data() + first * vocabulary, made.data, made.bytes());
  }
  stream_->synchronize();
}

void CachedEngine::read(int64_t slot, std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (slot < 0 || slot >= slots() || count < 1 || count > positions()) {
    throw UsageError(fmt::format("a text of {} tokens for slot {} of {}, which have 1 to {}", count, slot,
                                 slots(), positions()));
  }
  for (int64_t done = 0; done < count;) {
    const size_t pass = model::text_pass(pass_rows_, count - done);
    const int64_t rows = std::min(count - done, model_.rows(pass));
    for (int64_t row = 0; row < model_.rows(pass); ++row) {
      const bool real = row < rows;
      put(static_cast<size_t>(done + row), real ? tokens[static_cast<size_t>(done + row)] : 0,
          real ? done + row : 0, real ? slot : -1);
    }
    run(pass, static_cast<size_t>(done));
    done += rows;
    if (done == count && model_.has_head()) model_.take_row(*stream_, rows - 1, 0);
  }
  lengths_[static_cast<size_t>(slot)] = count;
  finish(slot, 1);
}

void CachedEngine::advance(std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != slots())
    throw UsageError(fmt::format("tokens of {} slots for an engine of {}", tokens.size(), slots()));
  for (size_t slot = 0; slot < tokens.size(); ++slot) {
    int64_t& length = lengths_[slot];
    const bool goes_on = tokens[slot] >= 0;
    if (goes_on && length >= positions())
      throw UsageError(fmt::format("slot {} has {} tokens, and no room for more", slot, length));
    put(slot, goes_on ? tokens[slot] : 0, goes_on ? length : 0, goes_on ? static_cast<int64_t>(slot) : -1);
    if (goes_on) ++length;
  }
  run(model_.token_pass(), 0);
  if (model_.has_head()) model_.take_all(*stream_);
  finish(0, slots());
}

std::span<const float> CachedEngine::logits(int64_t slot) const {
  if (!model_.has_head()) throw UsageError("logits of a rank without a head");
  const auto vocabulary = static_cast<size_t>(model_.config().model.vocab_size);
  return std::span<const float>(logits_).subspan(static_cast<size_t>(slot) * vocabulary, vocabulary);
}

void CachedEngine::tell(std::span<int32_t> tokens) {
  if (communicators_.pipeline->size() == 1) return;
  const Tensor told = model_.told_tokens().rows(0, static_cast<int64_t>(tokens.size()));
  if (model_.has_head()) {
    std::copy(tokens.begin(), tokens.end(), told_.begin());
    stream_->copy(told.data, told_.data(), told.bytes());
  }
  communicators_.pipeline->broadcast(*stream_, told, owner(plan_.last_stage()));
  stream_->copy(told_.data(), told.data, told.bytes());
  stream_->synchronize();
  std::copy(told_.begin(), told_.begin() + static_cast<std::ptrdiff_t>(tokens.size()), tokens.begin());
}

}  // namespace penstock::runtime
