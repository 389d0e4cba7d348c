#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace penstock::run_report {

/// JSON as it may stand within a script element: no text of it can end the element or begin a comment.
std::string json_for_script(const nlohmann::ordered_json& data);

/// A whole HTML page, with styles, scripts and data in it. It loads nothing.
std::string page(const nlohmann::ordered_json& data);

}  // namespace penstock::run_report
