#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/commands/data_prepare.h"
#include "trainer/commands/input_files.h"
#include "trainer/commands/preparation_state.h"

namespace penstock::commands {

/// Throws data::DataError for a prefix without a name, and for an input that an output would replace.
void check_outputs(const std::vector<InputFile>& inputs, const std::string& prefix);

/// Throws data::DataError for an option that no input heeds.
void check_options(const DataPrepareOptions& options, const std::vector<InputFile>& inputs);

/// Throws data::DataError where a preparation that was left off at `state` was another one: says which
/// option, or which input and how it differs.
void check_goes_on(const PreparationState& state, const nlohmann::json& request,
                   const std::vector<InputFile>& inputs, const std::string& state_path);

}  // namespace penstock::commands
