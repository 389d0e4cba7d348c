#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::model {

/// Texts that are generated at once, a slot each, and how many tokens of each are kept.
struct CacheConfig {
  int64_t slots = 1;
  int64_t positions = 1;  ///< at most the model's sequence_length
};

/// The most rows that are multiplied as few (math::Gemm::plan_few_rows), unless there are more texts.
inline constexpr int64_t few_rows = 64;

/// Rows of the shortest piece of a text.
inline constexpr int64_t shortest_piece = 16;

/// The numbers of tokens that passes are made for, descending: pieces of a text that is read (256, 64, 16),
/// the last of which may be padded, then a token of each slot. How a text is cut depends on its length alone:
/// so do its bits.
inline std::vector<int64_t> pass_rows(const CacheConfig& cache) {
  std::vector<int64_t> rows;
  if (cache.positions >= 256) rows.push_back(256);
  if (cache.positions > 2 * shortest_piece) rows.push_back(few_rows);
  rows.push_back(shortest_piece);
  rows.push_back(cache.slots);
  return rows;
}

/// Which of these passes takes the next piece of a text of which `left` tokens are left: the largest that is
/// full; of what is less than 64, one that is more than half full, or one of 16.
inline size_t text_pass(const std::vector<int64_t>& rows, int64_t left) {
  const size_t last = rows.size() - 2;  // behind it stands that of the slots
  size_t pass = 0;
  while (pass < last && rows[pass] > left && !(rows[pass] == few_rows && left > 2 * shortest_piece)) ++pass;
  return pass;
}

}  // namespace penstock::model
