#include "trainer/commands/data_command.h"

#include <cstdio>

#include <fmt/format.h>

#include "data/data_error.h"
#include "trainer/job/exit_code.h"

namespace penstock::commands {

int run_reporting_data_errors(const std::function<void()>& work) {
  try {
    work();
    return static_cast<int>(ExitCode::finished);
  } catch (const data::DataError& error) {
    fmt::print(stderr, "penstock: error: {}\n", error.what());
    return static_cast<int>(ExitCode::data);
  }
}

}  // namespace penstock::commands
