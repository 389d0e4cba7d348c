#include "parallel/schedule/rendezvous.h"

#include <fmt/format.h>

namespace penstock::schedule {

namespace {

class Run {
 public:
  Run(const Program& program, const Wiring& wiring, QueueLayout layout)
      : program_(program),
        wiring_(wiring),
        layout_(layout),
        done_(static_cast<size_t>(wiring.size()), 0),
        ranks_(static_cast<size_t>(program.schedule.ranks)) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (int id = wiring.first[rank]; id < wiring.first[rank + 1]; ++id) {
        ranks_[rank][queue(static_cast<int>(rank), id)].ids.push_back(id);
      }
    }
  }

  std::vector<Violation> run() {
    std::vector<int> open;
    for (int rank = program_.schedule.ranks - 1; rank >= 0; --rank) open.push_back(rank);
    while (!open.empty()) {
      const int rank = open.back();
      open.pop_back();
      for (bool progress = true; progress;) {
        progress = false;
        for (Queue& each : ranks_[static_cast<size_t>(rank)]) {
          while (each.head() >= 0 && may_happen(each.head())) {
            const int id = each.head();
            const int partner = wiring_.partner[static_cast<size_t>(id)];
            happen(rank, id);
            if (partner >= 0) {
              const int other = wiring_.rank_of(partner);
              happen(other, partner);
              open.push_back(other);
            }
            progress = true;
          }
        }
      }
    }
    return stuck();
  }

 private:
  struct Queue {
    std::vector<int> ids;
    size_t next = 0;
    int head() const { return next < ids.size() ? ids[next] : -1; }
  };

  const Instruction& instruction(int rank, int id) const {
    return program_.ranks[static_cast<size_t>(rank)]
        .instructions[static_cast<size_t>(id - wiring_.first[static_cast<size_t>(rank)])];
  }
  size_t queue(int rank, int id) const {
    return static_cast<size_t>(queue_of(instruction(rank, id), layout_));
  }

  int unmet(int id) const {
    for (const int before : wiring_.waits_for[static_cast<size_t>(id)]) {
      if (before >= 0 && done_[static_cast<size_t>(before)] == 0) return before;
    }
    return -1;
  }

  bool may_happen(int id) const {
    if (unmet(id) >= 0) return false;
    const int partner = wiring_.partner[static_cast<size_t>(id)];
    if (partner < 0) return true;
    const int other = wiring_.rank_of(partner);
    return ranks_[static_cast<size_t>(other)][queue(other, partner)].head() == partner && unmet(partner) < 0;
  }

  void happen(int rank, int id) {
    done_[static_cast<size_t>(id)] = 1;
    ++ranks_[static_cast<size_t>(rank)][queue(rank, id)].next;
  }

  std::vector<Violation> stuck() const {
    std::vector<Violation> found;
    for (int rank = 0; rank < program_.schedule.ranks && found.size() < max_violations; ++rank) {
      for (const Queue& each : ranks_[static_cast<size_t>(rank)]) {
        if (each.head() < 0) continue;
        found.push_back(
            {rank, each.head() - wiring_.first[static_cast<size_t>(rank)],
             to_string(instruction(rank, each.head())),
             fmt::format("never happens under rendezvous ({}): {}", to_string(layout_), why(each.head()))});
        break;
      }
    }
    return found;
  }

  std::string describe(int id) const {
    const int rank = wiring_.rank_of(id);
    return fmt::format("#{} {} of rank {}", id - wiring_.first[static_cast<size_t>(rank)],
                       to_string(instruction(rank, id)), rank);
  }

  std::string why(int id) const {
    const int before = unmet(id);
    if (before >= 0) return "it waits for " + describe(before);
    const int partner = wiring_.partner[static_cast<size_t>(id)];
    const int other = wiring_.rank_of(partner);
    const int head = ranks_[static_cast<size_t>(other)][queue(other, partner)].head();
    if (head == partner) return fmt::format("its counterpart waits for {}", describe(unmet(partner)));
    return fmt::format("its counterpart stands behind {}", describe(head));
  }

  const Program& program_;
  const Wiring& wiring_;
  QueueLayout layout_;
  std::vector<char> done_;
  std::vector<std::array<Queue, max_queues>> ranks_;
};

}  // namespace

const char* to_string(QueueLayout layout) {
  switch (layout) {
    case QueueLayout::serial:
      return "everything in one queue";
    case QueueLayout::one_communication:
      return "one queue for all communication";
    case QueueLayout::send_and_receive:
      return "a send and a receive queue";
    case QueueLayout::by_payload:
      return "queues by direction and payload";
  }
  return "?";
}

int queue_of(const Instruction& instruction, QueueLayout layout) {
  const bool compute =
      instruction.kind == InstructionKind::compute || instruction.kind == InstructionKind::optimizer_step;
  if (compute || layout == QueueLayout::serial) return 0;
  if (layout == QueueLayout::one_communication) return 1;
  if (!instruction.is_transfer()) return 5;
  const int direction = instruction.kind == InstructionKind::send ? 1 : 3;
  return direction + (layout == QueueLayout::by_payload && instruction.carries_gradient() ? 1 : 0);
}

std::vector<Violation> run_to_end(const Program& program, const Wiring& wiring, QueueLayout layout) {
  return Run(program, wiring, layout).run();
}

}  // namespace penstock::schedule
