#pragma once

#include <string_view>

namespace penstock::run_report {

/// The files of template/, put into the program by its build. Scripts are joined in the order in which they
/// need each other.
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace penstock::run_report
