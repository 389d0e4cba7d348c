#pragma once

#include <functional>
#include <string>

namespace penstock {

/// What is printed the moment a signal asks the run to stop: a step may go on for long before the run itself
/// can answer, and some launchers do not wait for it.
struct StopNotice {
  std::string first;  ///< at any such signal
  std::string
      impatience;  ///< at TERM and INT also: when the launcher will kill, and how to stop instead; or empty
  /// A second TERM is nobody's hurry: Slurm sends two of them itself, and waits for the save then.
  bool two_terms = false;
};

/// `variable(name)`: as getenv. mpirun sends its ranks KILL after TERM; Open MPI's odls_base_sigkill_timeout
/// says when, and reaches ranks as OMPI_MCA_odls_base_sigkill_timeout if it was given.
StopNotice stop_notice(const std::function<const char*(const char*)>& variable);

}  // namespace penstock
