// Proves that a schedule, or the program lowered from it, can run and computes every gradient once; or says
// what is wrong, where.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

struct Violation {
  int rank = 0;
  // Index in the rank's list; −1 for something that is missing from it.
  int position = -1;
  // "3F7", "send 3F7", …
  std::string action;
  std::string reason;

  // "rank 2, #14 3F7: …"
  std::string text() const;
};

// All of these return what they found, at most max_violations of it; nothing means valid.
inline constexpr size_t max_violations = 16;

// Placement, every action exactly once, F before I before W, I and W in micro-batch order (contract: sums
// have one order), and that the ranks' orders do not wait for each other in a circle.
std::vector<Violation> validate(const Schedule& schedule);

// The program: its actions as above; transfers matched and in one global order; what slots and buffers hold
// at each use; reductions, sums and gathers complete; and that it runs to the end under rendezvous however
// the queues are laid out (rendezvous.h).
std::vector<Violation> validate(const Program& program);

// Throws ScheduleError with the violations, one a line, if there are any.
void require_valid(const Schedule& schedule);
void require_valid(const Program& program);

}  // namespace penstock::schedule
