#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/input_stream.h"

namespace penstock::data {

/// What ends a document in a text file.
enum class DocumentSeparator {
  file,        ///< nothing: the file is one document
  line,        ///< the end of a line, which is not part of it
  blank_line,  ///< a line with nothing but white space
  end_of_text  ///< the text <|endoftext|>
};

/// What becomes of a document of JSON lines whose text is not Unicode: half of a surrogate pair
/// (`"\\ud800"`), or bytes that are not UTF-8.
enum class InvalidText {
  refuse,   ///< DataError with file, line and column
  replace,  ///< U+FFFD stands for it
  skip      ///< the document is left out
};

/// A part of a document.
struct DocumentPiece {
  std::string_view text;  ///< valid until the next call
  bool ends_document = false;
  uint64_t begin = 0;    ///< byte in the text; of JSON, of its line
  bool invalid = false;  ///< of JSON: its text was not Unicode; replaced or, then empty, skipped
};

/// Where a reader stands between two pieces: what it needs to go on from there in another process.
struct DocumentPosition {
  uint64_t byte = 0;  ///< of the text that were handed out
  uint64_t line = 0;  ///< of JSON lines
  bool in_document = false;
};

/// Streams documents from a text file, or from JSON lines with a "text" each; either may be packed by gzip or
/// zstd. Memory does not grow with the file: a document longer than `piece_bytes` comes in pieces, cut after
/// a letter and before a space, where no tokenizer has a token across. A text without such a place in its
/// next MiB is cut at the last one within `longest_piece`, else at a line end, else between characters. Where
/// pieces end follows from the text alone. A line of white space of more than `longest_piece` is no blank
/// line. A line of JSON is one piece, of at most `longest_line`.
class DocumentReader {
 public:
  static constexpr size_t piece_bytes = size_t{1} << 20;
  static constexpr size_t longest_piece = 16 * piece_bytes;
  static constexpr size_t longest_line = size_t{32} << 20;

  /// `json_lines`: whatever the name; else as has_json_name(). `invalid`: of JSON lines.
  DocumentReader(const std::string& path, DocumentSeparator separator, bool json_lines = false,
                 InvalidText invalid = InvalidText::refuse);

  /// Whether a file of that name is taken as JSON lines: .jsonl at its end, or before .gz and .zst.
  static bool has_json_name(const std::string& path);

  /// Goes on where another reader of the same file stood. Nothing has been read yet. Throws DataError.
  void go_on(const DocumentPosition& position);
  DocumentPosition position() const { return {consumed(), line_, in_document_}; }

  /// The next piece, or nothing at the end. An empty piece may end a document. Throws DataError: reading
  /// fails, a line is not a JSON object with a text.
  std::optional<DocumentPiece> next();

  /// Bytes of the text that were handed out.
  uint64_t consumed() const { return begin_ + start_; }
  /// Bytes of the file that this took, for progress.
  uint64_t file_consumed() const {
    return source_.compression() == Compression::none ? consumed() : source_.file_offset();
  }
  /// Bytes of the text, where it is a regular file that is not packed.
  std::optional<uint64_t> text_size() const { return source_.text_size(); }
  std::optional<uint64_t> file_size() const { return source_.file_size(); }
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

  InputStream source_;
  DocumentSeparator separator_;
  bool json_;
  InvalidText invalid_;
  std::string buffer_;
  size_t start_ = 0;     // of what is not handed out yet
  size_t searched_ = 0;  // bytes behind start_ without a separator, so that long documents are searched once
  uint64_t begin_ = 0;   // byte of the text at buffer_[0]
  uint64_t line_ = 0;
  bool in_document_ = false;  // a piece was handed out that did not end one
  bool at_end_ = false;
  std::string decoded_;
};

}  // namespace penstock::data
