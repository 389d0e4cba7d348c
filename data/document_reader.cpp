#include "data/document_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/json/json_fault.h"
#include "data/mended_json.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace penstock::data {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// The last place ≤ limit at which `text` may be cut, or 0.
template <class MayCut>
size_t last_place(std::string_view text, size_t limit, MayCut&& may_cut) {
  for (size_t at = std::min(limit, text.size() - 1); at > 0; --at) {
    if (may_cut(text[at - 1], text[at])) return at;
  }
  return 0;
}

// Where a document that goes on to the end of `text` at least is cut, or 0: more of it is needed, or it is
// short enough. Looks at the same bytes however many there are.
size_t place_to_cut(std::string_view text) {
  const auto after_word = [](char before, char at) { return is_letter(before) && at == ' '; };
  if (text.size() <= DocumentReader::piece_bytes) return 0;
  if (const size_t at = last_place(text, DocumentReader::piece_bytes, after_word)) return at;
  constexpr size_t limit = DocumentReader::longest_piece;
  if (text.size() <= limit) return 0;
  if (const size_t at = last_place(text, limit, after_word)) return at;
  const auto line_end = [](char before, char at) {
    return at == '\n' && before != '\n' && !is_blank(before);
  };
  if (const size_t at = last_place(text, limit, line_end)) return at;
  const auto character = [](char, char at) { return (static_cast<uint8_t>(at) & 0xC0U) != 0x80U; };
  return std::max<size_t>(last_place(text, limit, character), 1);
}

// Length of `text` without white space at its end from a line end on.
size_t without_line_end(std::string_view text) {
  size_t length = text.size();
  for (size_t at = text.size(); at > 0 && (is_blank(text[at - 1]) || text[at - 1] == '\n'); --at) {
    if (text[at - 1] == '\n') length = at - 1;
  }
  return length > 0 && length < text.size() && text[length - 1] == '\r' ? length - 1 : length;
}

}  // namespace

DocumentReader::DocumentReader(const std::string& path, DocumentSeparator separator, bool json_lines,
                               InvalidText invalid)
    : source_(path), separator_(separator), json_(json_lines || has_json_name(path)), invalid_(invalid) {
  if (json_) separator_ = DocumentSeparator::line;
}

bool DocumentReader::has_json_name(const std::string& path) {
  return without_compression_ending(path).ends_with(".jsonl");
}

void DocumentReader::go_on(const DocumentPosition& position) {
  source_.skip_to(position.byte);
  begin_ = position.byte;
  line_ = position.line;
  in_document_ = position.in_document;
}

bool DocumentReader::fill() {
  buffer_.erase(0, start_);
  begin_ += start_;
  start_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + piece_bytes);
  const size_t count = source_.read(buffer_.data() + before, piece_bytes);
  buffer_.resize(before + count);
  return count > 0;
}

std::optional<DocumentReader::Cut> DocumentReader::find_separator(std::string_view pending) {
  switch (separator_) {
    case DocumentSeparator::file:
      searched_ = pending.size();
      break;
    case DocumentSeparator::line: {
      const size_t end = pending.find('\n', searched_);
      if (end != std::string_view::npos) {
        const bool carriage_return = end > 0 && pending[end - 1] == '\r';
        return Cut{carriage_return ? end - 1 : end, end + 1, true};
      }
      searched_ = pending.size();
      break;
    }
    case DocumentSeparator::blank_line: {
      // A blank line: nothing but white space between two line ends, or between the document's start and one.
      size_t line = 0;
      if (in_document_ || searched_ > 0) {
        const size_t end = pending.find('\n', searched_);
        if (end == std::string_view::npos) {
          searched_ = pending.size();
          break;
        }
        line = end + 1;
      }
      while (line <= pending.size()) {
        size_t at = line;
        while (at < pending.size() && is_blank(pending[at])) ++at;
        const bool too_long = at - line > longest_piece;  // all of a blank line is looked at at once
        if (at == pending.size() &&
            !too_long) {  // not decided yet: this line's start is looked at again with more text
          searched_ = line == 0 ? 0 : line - 1;
          return std::nullopt;
        }
        if (!too_long && pending[at] == '\n') {
          size_t text = line == 0 ? 0 : line - 1;
          if (text > 0 && pending[text - 1] == '\r') --text;
          return Cut{text, at + 1, true};
        }
        const size_t end = pending.find('\n', at);
        if (end == std::string_view::npos) {
          searched_ = pending.size();
          return std::nullopt;
        }
        line = end + 1;
      }
      break;
    }
    case DocumentSeparator::end_of_text: {
      const std::string_view separator = end_of_text_name;
      const size_t end = pending.find(separator, searched_);
      if (end != std::string_view::npos) return Cut{end, end + separator.size(), true};
      searched_ = pending.size() < separator.size() ? 0 : pending.size() - separator.size() + 1;
      break;
    }
  }
  return std::nullopt;
}

std::optional<DocumentReader::Cut> DocumentReader::find_end() {
  const std::string_view pending = std::string_view(buffer_).substr(start_);
  const auto cut = find_separator(pending);
  if (json_) {
    if (!cut && pending.size() > longest_line) {
      throw DataError(Fault{fmt::format("{}:{}", path(), line_ + 1), consumed(),
                            fmt::format("a line of more than {} MiB", longest_line >> 20),
                            "shorter ones, a document each", "split that document"});
    }
    return cut;
  }
  // Only what certainly holds no separator, not even the start of one, may be handed out.
  const size_t document = cut ? cut->text : at_end_ ? pending.size() : searched_;
  if (const size_t at = place_to_cut(pending.substr(0, document))) return Cut{at, at, false};
  return cut;
}

std::optional<DocumentPiece> DocumentReader::next() {
  for (;;) {
    std::optional<Cut> cut = find_end();
    if (!cut && at_end_) {
      const size_t rest = buffer_.size() - start_;
      if (rest == 0 && !in_document_) return std::nullopt;
      const bool by_lines = separator_ == DocumentSeparator::blank_line;
      cut = Cut{by_lines ? without_line_end(std::string_view(buffer_).substr(start_)) : rest, rest, true};
    }
    if (!cut) {
      at_end_ = !fill();
      continue;
    }
    const std::string_view text = std::string_view(buffer_).substr(start_, cut->text);
    const uint64_t begin = consumed();
    start_ += cut->taken;
    searched_ = 0;
    in_document_ = !cut->ends_document;
    if (json_) {
      ++line_;
      if (std::all_of(text.begin(), text.end(), is_blank)) continue;
      return parse_json(text, begin);
    }
    return DocumentPiece{text, cut->ends_document, begin};
  }
}

DocumentPiece DocumentReader::parse_json(std::string_view line, uint64_t begin) {
  const char* const advice = "correct or remove the line";
  const auto fail = [&](const std::string& found, const std::string& what_to_do) {
    throw DataError(Fault{fmt::format("{}:{}", path(), line_), begin, found,
                          "a JSON object with the document as \"text\", such as {\"text\": \"...\"}",
                          what_to_do});
  };
  nlohmann::json object;
  const auto parse = [&](std::string_view json, bool may_be_mended) {
    try {
      object = nlohmann::json::parse(json);
      return true;
    } catch (const nlohmann::json::exception& error) {
      if (may_be_mended) return false;
      const JsonFault fault = json_fault(json, error);
      fail(fmt::format("no JSON (column {}: {})", fault.column, fault.what),
           json == line && mended_json(line) != line ? "correct or remove the line; penstock data "
                                                       "prepare takes texts that are not Unicode with "
                                                       "--invalid replace or skip"
                                                     : advice);
    }
    return false;
  };
  const bool mended = !parse(line, invalid_ != InvalidText::refuse);
  if (mended) parse(mended_json(line), false);
  if (!object.is_object()) fail(object.type_name(), advice);
  const auto text = object.find("text");
  if (text == object.end()) fail("an object without \"text\"", advice);
  if (!text->is_string()) fail(std::string("a \"text\" that is ") + text->type_name(), advice);
  decoded_ = std::move(text->get_ref<std::string&>());
  bool invalid = false;
  if (mended) {
    // What is not Unicode may stand elsewhere in the object: then another replacement changes no text.
    parse(mended_json(line, U'?'), false);
    invalid = object.at("text").get_ref<const std::string&>() != decoded_;
  }
  if (invalid && invalid_ == InvalidText::skip) decoded_.clear();
  return {decoded_, true, begin, invalid};
}

}  // namespace penstock::data
