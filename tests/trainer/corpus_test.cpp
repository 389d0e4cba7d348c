#include "trainer/corpus.h"

#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(MaskDocuments, RestartsPositionsAndHidesOtherDocuments) {
  const std::vector<int32_t> document_starts{2, 5};
  std::vector<int32_t> positions(7);
  std::vector<int32_t> starts(7);
  std::vector<int32_t> targets{10, 11, 12, 13, 14, 15, 16};
  mask_documents(document_starts, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 1, 0, 1, 2, 0, 1}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 0, 2, 2, 2, 5, 5}));
  EXPECT_EQ(targets, (std::vector<int32_t>{10, -1, 12, 13, -1, 15, 16}));
}

TEST(MaskDocuments, ADocumentThatStartsWithTheSampleMasksNothing) {
  std::vector<int32_t> positions(3);
  std::vector<int32_t> starts(3);
  std::vector<int32_t> targets{1, 2, 3};
  mask_documents(std::vector<int32_t>{0}, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 2, 3}));
}

TEST(MaskDocuments, EveryTokenItsOwnDocument) {
  std::vector<int32_t> positions(3, 9);
  std::vector<int32_t> starts(3, 9);
  std::vector<int32_t> targets{1, 2, 3};
  mask_documents(std::vector<int32_t>{0, 1, 2}, positions, starts, targets);
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-1, -1, 3}));
}

}  // namespace
}  // namespace penstock
