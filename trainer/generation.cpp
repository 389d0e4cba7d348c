#include "trainer/generation.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "trainer/elapsed.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

/// Tokens of a text for which there is room from the start.
constexpr int64_t reserved_tokens = 1 << 16;

class Generation {
 public:
  Generation(runtime::CachedEngine& engine, std::span<const GenerationRequest> requests, int64_t count,
             const TokenChoice& choice, const TokenSeen& seen)
      : engine_(engine),
        requests_(requests),
        count_(count),
        seen_(seen),
        slots_(static_cast<size_t>(engine.slots())),
        fed_(slots_.size()),
        made_(slots_.size()) {
    if (engine.holds_head()) sampler_.emplace(choice, engine.rank().config().model.vocab_size);
  }

  GenerationFigures run() {
    for (;;) {
      for (size_t slot = 0; slot < slots_.size(); ++slot) fill(slot);
      if (!std::any_of(slots_.begin(), slots_.end(), [](const Slot& each) { return each.live; })) break;
      step();
    }
    return figures_;
  }

 private:
  struct Slot {
    bool live = false;
    size_t request = 0;
    std::vector<int32_t> text;
    int64_t left = 0;
  };

  // The slot's next text, until one does not end with its first token.
  void fill(size_t slot) {
    Slot& at = slots_[slot];
    while (!at.live && next_ < requests_.size()) {
      at.request = next_++;
      const std::span<const int32_t> there = requests_[at.request].tokens;
      at.text.reserve(there.size() + static_cast<size_t>(std::min(count_, reserved_tokens)));
      at.text.assign(there.begin(), there.end());
      at.left = count_;
      at.live = true;
      read(slot);
      std::span<int32_t> first(&made_[slot], 1);
      draw(slot);
      engine_.tell(first);
      take(slot);
    }
  }

  void read(size_t slot) {
    const Clock::time_point start = Clock::now();
    const std::vector<int32_t>& text = slots_[slot].text;
    const size_t window = std::min(text.size(), static_cast<size_t>(engine_.positions()));
    engine_.read(static_cast<int64_t>(slot), std::span(text).last(window));
    figures_.read_tokens += static_cast<int64_t>(window);
    figures_.read_seconds += seconds_since(start);
  }

  void step() {
    const Clock::time_point start = Clock::now();
    const double reading = figures_.read_seconds;
    bool advances = false;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      fed_[slot] = goes_on(slot) ? slots_[slot].text.back() : -1;
      if (fed_[slot] < 0) continue;
      advances = true;
      ++figures_.made_tokens;
      figures_.kept_tokens += engine_.length(static_cast<int64_t>(slot)) + 1;
    }
    if (advances) engine_.advance(fed_);
    figures_.steps += advances ? 1 : 0;
    // The window has moved: what is kept was made with what it no longer sees.
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].live && fed_[slot] < 0) read(slot);
    }
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].live) draw(slot);
    }
    engine_.tell(made_);
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].live) take(slot);
    }
    if (advances) figures_.made_seconds += seconds_since(start) - (figures_.read_seconds - reading);
  }

  bool goes_on(size_t slot) const {
    return slots_[slot].live && engine_.length(static_cast<int64_t>(slot)) < engine_.positions();
  }

  void draw(size_t slot) {
    if (!sampler_) return;
    const Slot& at = slots_[slot];
    made_[slot] = sampler_->next(engine_.logits(static_cast<int64_t>(slot)), requests_[at.request].number,
                                 at.text.size());
  }

  void take(size_t slot) {
    Slot& at = slots_[slot];
    at.text.push_back(made_[slot]);
    at.live = --at.left > 0;
    if (seen_(at.request, made_[slot])) at.live = false;
  }

  runtime::CachedEngine& engine_;
  std::span<const GenerationRequest> requests_;
  const int64_t count_;
  const TokenSeen& seen_;
  std::vector<Slot> slots_;
  std::vector<int32_t> fed_;
  std::vector<int32_t> made_;
  size_t next_ = 0;
  std::optional<TokenSampler> sampler_;  ///< where the head is
  GenerationFigures figures_;
};

}  // namespace

GenerationFigures generate(runtime::CachedEngine& engine, std::span<const GenerationRequest> requests,
                           int64_t count, const TokenChoice& choice, const TokenSeen& seen) {
  return Generation(engine, requests, count, choice, seen).run();
}

int64_t needed_positions(std::span<const GenerationRequest> requests, int64_t count,
                         int64_t sequence_length) {
  int64_t longest = 1;
  for (const GenerationRequest& request : requests)
    longest = std::max(longest, static_cast<int64_t>(request.tokens.size()));
  // The last token is not read.
  return std::min(sequence_length, longest + count - 1);
}

}  // namespace penstock
