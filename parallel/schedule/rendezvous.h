// Runs a program without time, under rendezvous: a transfer or a collective of two ranks happens only when it
// is at the head of its queue on both sides and all it waits for has happened. Nothing is buffered.
#pragma once

#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/wiring.h"

namespace penstock::schedule {

// Which instructions of a rank share an in-order queue. Compute has its own in all but the first.
enum class QueueLayout : std::uint8_t {
  serial,             // one queue for everything: a host that blocks in every call
  one_communication,  // compute; everything that communicates
  send_and_receive,   // compute; sends; receives; collectives (what the executor does)
  by_payload,         // compute; sends and receives, each of activations and of gradients; collectives
};
inline constexpr int max_queues = 6;

const char* to_string(QueueLayout layout);

// The queue of an instruction, 0 … max_queues − 1; 0 is the compute stream.
int queue_of(const Instruction& instruction, QueueLayout layout);

// Where each rank that does not reach its end is stuck, and on what; empty if the program runs to its end.
std::vector<Violation> run_to_end(const Program& program, const Wiring& wiring, QueueLayout layout);

}  // namespace penstock::schedule
