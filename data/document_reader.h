#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/byte_source.h"

namespace penstock::data {

/// What ends a document in a text file.
enum class DocumentSeparator {
  file,        ///< nothing: the file is one document
  line,        ///< the end of a line, which is not part of it
  blank_line,  ///< a line with nothing but white space
  end_of_text  ///< the text <|endoftext|>
};

/// A part of a document.
struct DocumentPiece {
  std::string_view text;  ///< valid until the next call
  bool ends_document = false;
  uint64_t begin = 0;  ///< byte in the file; of JSON, of its line
};

/// Streams documents from a text file, or from JSON lines with a "text" each where the name ends in .jsonl.
/// Memory does not grow with the file: a document longer than `piece_bytes` comes in pieces, cut after a
/// letter and before a space, where no tokenizer has a token across. A text without such a place in 16 MiB is
/// cut at a line end, else between characters. A line of JSON is one piece.
class DocumentReader {
 public:
  static constexpr size_t piece_bytes = size_t{1} << 20;

  DocumentReader(const std::string& path, DocumentSeparator separator);

  /// The next piece, or nothing at the end. An empty piece may end a document. Throws DataError: reading
  /// fails, a line is not a JSON object with a text.
  std::optional<DocumentPiece> next();

  /// Bytes of the file that were handed out.
  uint64_t consumed() const { return begin_ + start_; }
  std::optional<uint64_t> size() const { return source_.size(); }
  bool is_json() const { return json_; }
  const std::string& path() const { return source_.path(); }

 private:
  struct Cut {
    size_t text;   // bytes of the piece
    size_t taken;  // bytes with the separator
    bool ends_document;
  };

  bool fill();
  std::optional<Cut> find_end();
  std::optional<Cut> find_separator(std::string_view pending);
  DocumentPiece parse_json(std::string_view line, uint64_t begin);

  ByteSource source_;
  DocumentSeparator separator_;
  bool json_;
  std::string buffer_;
  size_t start_ = 0;     // of what is not handed out yet
  size_t searched_ = 0;  // bytes behind start_ without a separator, so that long documents are searched once
  uint64_t begin_ = 0;   // byte of the file at buffer_[0]
  uint64_t line_ = 0;
  bool in_document_ = false;  // a piece was handed out that did not end one
  bool at_end_ = false;
  std::string decoded_;
};

}  // namespace penstock::data
