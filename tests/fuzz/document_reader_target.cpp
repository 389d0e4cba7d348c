#include <vector>

#include "data/data_error.h"
#include "data/document_reader.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

namespace {

struct Piece {
  std::string text;
  bool ends_document;
  penstock::data::DocumentPosition after;
};

std::vector<Piece> pieces_from(const std::string& path, uint8_t how,
                               const penstock::data::DocumentPosition& from) {
  using namespace penstock;
  const bool json_lines = how % 5 == 4;
  data::DocumentReader reader(path, static_cast<data::DocumentSeparator>(json_lines ? 0 : how % 5),
                              json_lines, static_cast<data::InvalidText>(how / 5 % 3));
  if (from.byte > 0) reader.go_on(from);
  std::vector<Piece> pieces;
  while (const auto piece = reader.next()) {
    fuzz::require(reader.consumed() >= piece->begin, "a piece from behind what was read");
    pieces.push_back({std::string(piece->text), piece->ends_document, reader.position()});
  }
  fuzz::require(pieces.empty() || pieces.back().ends_document, "a document without an end");
  return pieces;
}

}  // namespace

// The first byte says how documents are separated, and what becomes of JSON that is not Unicode; the text
// behind it may be packed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  if (count == 0) return 0;
  const fuzz::InputFile input(bytes + 1, count - 1);
  try {
    const std::vector<Piece> pieces = pieces_from(input.path(), bytes[0], {});
    if (pieces.empty()) return 0;
    const size_t left_off = pieces.size() / 2;
    const std::vector<Piece> rest = pieces_from(input.path(), bytes[0], pieces[left_off].after);
    fuzz::require(rest.size() == pieces.size() - left_off - 1,
                  "another number of pieces where a reader goes on");
    for (size_t i = 0; i < rest.size(); ++i) {
      fuzz::require(rest[i].text == pieces[left_off + 1 + i].text &&
                        rest[i].ends_document == pieces[left_off + 1 + i].ends_document,
                    "another piece where a reader goes on");
    }
  } catch (const data::DataError&) {
  }
  return 0;
}
