#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace penstock::report {

/// environment.json: what is needed to understand later how a run came about: host, processor, cores this
/// process may use, memory, system, build, libraries, command line, environment variables that change a run's
/// behaviour. Variables whose name speaks of a token, key, secret or password are left out.
nlohmann::ordered_json describe_environment(const std::vector<std::string>& command_line);

/// Its text, as the file holds it.
std::string environment_text(const std::vector<std::string>& command_line);

}  // namespace penstock::report
