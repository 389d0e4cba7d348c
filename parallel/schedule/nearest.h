#pragma once

#include <string>
#include <vector>

namespace penstock {

/// The known word that a typing error most likely meant: fewest insertions, deletions, replacements and swaps
/// of neighbours, at most a third of the word's length; empty if none is near. Case and `-` for `_` do not
/// count.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace penstock
