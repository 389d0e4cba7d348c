#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `convert` under `parent`: a tiktoken rank file to a tokenizer.json.
CLI::App* add_tokenizer_convert(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
