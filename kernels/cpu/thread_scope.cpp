#include "kernels/cpu/thread_scope.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace penstock::cpu {

#ifdef _OPENMP
ThreadScope::ThreadScope(int threads) : previous_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}
ThreadScope::~ThreadScope() {
  omp_set_num_threads(previous_);
}
#else
ThreadScope::ThreadScope(int threads) : previous_(threads) {}
ThreadScope::~ThreadScope() = default;
#endif

}  // namespace penstock::cpu
