#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/run_view/cause.h"

namespace penstock::watch {

/// What a terminal can show.
struct Abilities {
  bool colour = false;
  bool utf8 = false;
};

/// How a piece of text looks, where there are colours.
enum class Ink : uint8_t { plain, dim, strong, good, warning, alarm, accent, cause };

/// A row of the panel: pieces of text, each with its ink. Every character takes one column.
class Line {
 public:
  struct Piece {
    std::string text;
    int columns = 0;
    Ink ink = Ink::plain;
    run_view::Cause cause = run_view::Cause::forward;  ///< of Ink::cause
  };

  /// Text of our own: printable, of known width.
  Line& add(std::string_view text, Ink ink = Ink::plain);
  /// On the colour of a cause.
  Line& add(std::string_view text, run_view::Cause cause);
  /// Spaces up to a column; one at least if `apart`.
  Line& pad_to(int column, bool apart = false);
  /// Cuts what is beyond.
  void clip(int columns);

  int columns() const { return columns_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// With colours as escape sequences.
  std::string text(const Abilities& abilities) const;

 private:
  std::vector<Piece> pieces_;
  int columns_ = 0;
};

/// Text of others (a name, a reason) as it may be put on a terminal: without control characters, and without
/// what the terminal cannot show or what is not one column wide. Nobody's file may move the cursor.
std::string shown(std::string_view foreign, const Abilities& abilities);
/// At most so many columns of a shown text, with a mark where something was cut.
std::string cut(std::string_view text, int columns, const Abilities& abilities);
/// The same from the front: of a path the end tells more.
std::string cut_front(std::string_view text, int columns, const Abilities& abilities);
/// Characters, which are columns in a shown text.
int columns_of(std::string_view text);

}  // namespace penstock::watch
