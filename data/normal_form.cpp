#include "data/normal_form.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#include <fmt/format.h>
#include <utf8proc.h>

#include "data/data_error.h"
#include "data/utf8.h"

namespace penstock::data {
namespace {

constexpr char32_t first_that_may_change = 0x300;  // everything below is in the form, and stays alone
constexpr char32_t jamo_begin = 0x1100;            // letters that compose to Hangul syllables by arithmetic
constexpr char32_t jamo_end = 0x1200;

// No decomposition, no combining mark, never the second of a composition: such a character changes nothing.
bool stays(char32_t code) {
  if (code < first_that_may_change) return true;
  if (code >= jamo_begin && code < jamo_end) return false;
  constexpr uint16_t none = std::numeric_limits<uint16_t>::max();
  constexpr uint16_t second = 0x8000;  // set in comb_index of those that compose with one in front
  const utf8proc_property_t& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  const bool decomposes = property.decomp_seqindex != none && property.decomp_type == 0;
  return property.combining_class == 0 && !decomposes &&
         (property.comb_index == none || property.comb_index < second);
}

bool is_normal(std::string_view valid) {
  for (size_t at = 0; at < valid.size();) {
    const std::string_view rest = valid.substr(at);
    if (static_cast<uint8_t>(rest.front()) < 0x80) {
      ++at;
      continue;
    }
    if (!stays(decode_utf8(rest))) return false;
    at += utf8_character(rest);
  }
  return true;
}

void append_normal(std::string_view valid, std::string& out) {
  struct Free {
    void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }
  };
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), static_cast<utf8proc_ssize_t>(valid.size()),
      &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> memory(result);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) {
    throw DataError(fmt::format("the normal form of {} bytes of text: {}; use shorter texts", valid.size(),
                                utf8proc_errmsg(size)));
  }
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

}  // namespace

std::string_view NormalForm::apply(std::string_view text) {
  normal_.clear();
  bool changed = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view valid = rest.substr(0, valid_utf8_prefix(rest));
    if (is_normal(valid)) {
      if (changed) normal_ += valid;
    } else {
      if (!changed) normal_ = text.substr(0, text.size() - rest.size());
      changed = true;
      append_normal(valid, normal_);
    }
    rest.remove_prefix(valid.size());
    const size_t invalid = invalid_utf8_prefix(rest);
    if (changed) normal_ += rest.substr(0, invalid);
    rest.remove_prefix(invalid);
  }
  return changed ? std::string_view(normal_) : text;
}

}  // namespace penstock::data
