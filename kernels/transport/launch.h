#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/transport/comm_section.h"

namespace penstock::transport {

/// The run cannot start as it was launched; the message says how to launch it.
class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Not every rank was there in time.
class StartTimeout : public LaunchError {
 public:
  using LaunchError::LaunchError;
};

/// What the environment says about how this process was started. It decides whether MPI is initialised, and
/// words errors; rank and world size come from MPI.
struct LaunchSigns {
  int mpirun_processes = 0;      ///< OMPI_COMM_WORLD_SIZE; 0: not under mpirun
  bool process_manager = false;  ///< PMIX_RANK or PMI_RANK: some launcher that speaks to MPI
  int slurm_tasks = 0;           ///< SLURM_NTASKS; 0: not in a Slurm job
  bool slurm_step = false;       ///< SLURM_STEP_ID: started by srun, not from the batch script
  int torch_processes = 0;       ///< WORLD_SIZE, where RANK is set too; 0: not by torchrun, nor by hand

  bool operator==(const LaunchSigns&) const = default;
};

/// `variable(name)`: as getenv, nullptr if unset. A number that is none counts as unset.
LaunchSigns read_launch_signs(const std::function<const char*(const char*)>& variable);

/// What the job asks for.
struct LaunchRequest {
  TransportChoice transport = TransportChoice::automatic;
  int64_t pipeline = 1;                             ///< P
  std::optional<int64_t> data;                      ///< D; absent: "auto"
  std::string command = "penstock train job.toml";  ///< what the user would put behind mpirun or srun
  BootstrapChoice bootstrap = BootstrapChoice::automatic;
  bool cuda = false;  ///< parallel.device
};

enum class TransportKind { inproc, mpi, tcp, nccl };

struct LaunchPlan {
  TransportKind transport = TransportKind::inproc;
  int ranks = 1;     ///< P · D
  int pipeline = 1;  ///< P
  int data = 1;      ///< D
};

/// Whether several processes would talk by NCCL: the job asks for it, or leaves it open and has GPUs.
bool wants_nccl(const LaunchRequest& request);

/// Whether MPI has to be initialised before plan_launch can decide: the job asks for it, or a launcher
/// started us; not for tasks of srun that nothing connects, which plan_launch refuses. NCCL's ranks may meet
/// by TCP instead. LaunchError if it has to be and `mpi_built_in` is false.
bool needs_mpi(const LaunchRequest& request, const LaunchSigns& signs, bool mpi_built_in);

/// Whether the processes have to meet by TCP before plan_launch can decide: the job asks for it, or they are
/// NCCL's and do not meet by MPI.
bool needs_tcp(const LaunchRequest& request, const LaunchSigns& signs, bool mpi_built_in);

/// Decides transport, P and D. `processes`: of the MPI or TCP world, 0 where there is none. Without a
/// launcher P·D > 1 runs inproc; nccl that is asked for, between threads. LaunchError, with the exact
/// command, where
/// - the world's size is not P·D, or with data = "auto" no multiple of P,
/// - several tasks were asked of Slurm but MPI sees one (a wrong or absent srun --mpi: N singletons),
/// - inproc was asked for under a launcher of several processes.
LaunchPlan plan_launch(const LaunchRequest& request, const LaunchSigns& signs, int processes);

}  // namespace penstock::transport
