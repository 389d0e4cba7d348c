#include "trainer/stop_notice.h"

#include <fmt/format.h>

namespace penstock {

StopNotice stop_notice(const std::function<const char*(const char*)>& variable) {
  StopNotice notice{"penstock: asked to stop: the step under way ends, then the run is saved\n", "",
                    variable("SLURM_JOB_ID") != nullptr};
  // srun starts ranks of a job step itself and waits KillWait, 30 s or what the cluster chose.
  if (variable("OMPI_COMM_WORLD_SIZE") == nullptr) return notice;
  const char* given = variable("OMPI_MCA_odls_base_sigkill_timeout");
  notice.impatience = fmt::format(
      "penstock: mpirun kills its ranks {} s after TERM or INT, saved or not, and exits with 1; it waits for "
      "a save "
      "when USR1 is sent to it instead\n",
      given == nullptr ? "1" : given);
  return notice;
}

}  // namespace penstock
