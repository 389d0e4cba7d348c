// A second opinion, written as plainly as possible and sharing nothing with the validator or the simulator:
// actions and messages are carried out one by one with the data they would move, by scanning until nothing
// moves any more.
#pragma once

#include <string>

#include "parallel/schedule/costs.h"
#include "parallel/schedule/program.h"
#include "parallel/schedule/schedule.h"

namespace penstock::schedule::oracle {

// "" if the schedule runs to its end and computes every gradient once, in order; else what went wrong.
std::string problem(const Schedule& schedule);

// "" if the program does so in every queue layout, keeps to one global order, and posts no receive too early.
std::string problem(const Program& program);

// When the last action ends if every action starts as soon as its rank is free and its input has been there
// for `latency`; buffers and queues are without limit.
double makespan(const Schedule& schedule, const Costs& costs, double latency);

}  // namespace penstock::schedule::oracle
