#include "trainer/run_report/page.h"

#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "trainer/run_report/template.h"

namespace penstock::run_report {
namespace {

void put(std::string_view mark, std::string_view text, std::string& page) {
  const size_t at = page.find(mark);
  if (at == std::string::npos) throw std::logic_error("page: the template has no " + std::string(mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

std::string json_for_script(const nlohmann::ordered_json& data) {
  const std::string text = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";  // outside of strings JSON has none
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string page(const nlohmann::ordered_json& data) {
  std::string made(page_html);
  put("/*STYLE*/", page_css, made);
  put("/*SCRIPT*/", page_js, made);
  put("/*DATA*/", json_for_script(data), made);  // last: marks in it are no marks
  return made;
}

}  // namespace penstock::run_report
