#include "trainer/vote.h"

#include <array>

namespace penstock {

Decision vote(transport::World& world, const Decision& wishes) {
  constexpr uint64_t evaluate = 1;
  constexpr uint64_t save = 2;
  constexpr uint64_t finished = 4;
  constexpr uint64_t trace = 8;
  constexpr uint64_t arrange = 16;
  constexpr uint64_t saving = 32;
  constexpr uint64_t rollback = 64;
  constexpr uint64_t unfit = 128;
  std::array<uint64_t, 1> flags{(wishes.evaluate ? evaluate : 0) | (wishes.save ? save : 0) |
                                (wishes.finished ? finished : 0) | (wishes.trace ? trace : 0) |
                                (wishes.arrangement.empty() ? 0 : arrange) | (wishes.saving ? saving : 0) |
                                (wishes.rollback ? rollback : 0) | (wishes.unfit ? unfit : 0)};
  // The lowest rank that stops, as a maximum: ranks that go on offer 0.
  std::array<int64_t, 1> stopper{wishes.stop ? world.size() - world.rank() : 0};
  world.all_or(flags);
  world.all_reduce(stopper, transport::Reduction::maximum);

  Decision decision;
  decision.evaluate = (flags[0] & evaluate) != 0;
  decision.save = (flags[0] & save) != 0;
  decision.saving = (flags[0] & saving) != 0;
  decision.finished = (flags[0] & finished) != 0;
  decision.trace = (flags[0] & trace) != 0;
  decision.rollback = (flags[0] & rollback) != 0;
  decision.unfit = (flags[0] & unfit) != 0;
  if (decision.rollback) decision.finished = decision.evaluate = false;
  if (decision.rollback || decision.unfit) decision.save = false;
  if ((flags[0] & arrange) != 0) decision.arrangement = world.broadcast(wishes.arrangement, 0);
  decision.stop = stopper[0] > 0;
  if (decision.stop) {
    const int root = world.size() - static_cast<int>(stopper[0]);
    std::array<int64_t, 1> code{world.rank() == root ? static_cast<int64_t>(wishes.code) : 0};
    world.all_reduce(code, transport::Reduction::sum);
    decision.code = static_cast<ExitCode>(code[0]);
    decision.reason = world.broadcast(wishes.reason, root);
  }
  return decision;
}

}  // namespace penstock
