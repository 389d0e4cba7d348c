#pragma once

#include <cstdint>

namespace penstock {

/// [batch]: sequences of a step and of a micro-batch.
struct BatchSection {
  int64_t global = 0;
  int64_t micro = 0;

  bool operator==(const BatchSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    constexpr int64_t kSequences = int64_t{1} << 32;
    v.key("global", global)
        .between(1, kSequences)
        .required()
        .help("sequences of one optimizer step: micro · micro-batches · data");
    v.key("micro", micro).between(1, kSequences).required().help("sequences of one micro-batch");
  }
};

}  // namespace penstock
