#include "parallel/schedule/catalogue.h"

#include <algorithm>

#include <fmt/format.h>

#include "parallel/schedule/csv.h"
#include "parallel/schedule/generators/generators.h"
#include "parallel/schedule/nearest.h"

namespace penstock::schedule {

namespace {

std::string anything_goes(const ScheduleOptions&) {
  return "";
}

std::string at_least(const ScheduleOptions& options, int smallest, const char* reason) {
  if (options.micro_batches >= smallest) return "";
  return fmt::format("needs at least {} micro-batches on {} pipeline ranks ({}); {} were asked for", smallest,
                     options.ranks, reason, options.micro_batches);
}

std::string interleaved_refusal(const ScheduleOptions& options) {
  const int M = options.micro_batches;
  std::string few = at_least(options, options.ranks,
                             "they visit the chunks in groups of at least P, or the first rank starves");
  if (!few.empty() || options.group == 0) return few;
  const int rest = M % options.group;
  if (options.group >= options.ranks && options.group <= M && (rest == 0 || rest >= options.ranks)) return "";
  return fmt::format(
      "cannot take groups of {}: a group is {} (P) to {} (M) micro-batches, and what is left over, here {}, "
      "is 0 or "
      "at least P; a group of {} works",
      options.group, options.ranks, M, rest, interleaved_group(options.ranks, M));
}

std::string zero_bubble_h2_refusal(const ScheduleOptions& options) {
  return at_least(options, 2 * options.ranks,
                  "2P: its warm-up of up to 2(P-1) forwards must fit before the drain");
}

// Two copies split the ranks and the micro-batches in halves.
std::string two_way_refusal(const ScheduleOptions& options, int smallest, const char* reason) {
  if (options.ranks % 2 != 0) {
    return fmt::format(
        "needs an even number of pipeline ranks (a micro-batch enters at each end); {} were asked for",
        options.ranks);
  }
  std::string few = at_least(options, smallest, reason);
  if (!few.empty() || options.micro_batches % 2 == 0) return few;
  return fmt::format(
      "needs an even number of micro-batches (half of them enter at each end), at least {}; {} were asked "
      "for, {} would "
      "do",
      smallest, options.micro_batches, options.micro_batches + 1);
}

std::string dual_pipe_refusal(const ScheduleOptions& options) {
  return two_way_refusal(options, 2 * options.ranks, "2P: P for each direction fill its eight steps");
}

std::string chimera_refusal(const ScheduleOptions& options) {
  return two_way_refusal(options, 2, "one for each direction");
}

std::string dual_pipe_v_refusal(const ScheduleOptions& options) {
  return at_least(options, 2 * options.ranks, "2P: its eight steps are filled by P for each arm of the V");
}

std::string hanayo_refusal(const ScheduleOptions& options) {
  if (options.chunks % 2 == 0) return "";
  return fmt::format("needs an even number of chunks (2 a wave: down and up); {} were asked for, {} would do",
                     options.chunks, options.chunks + 1);
}

std::string two_buffered_refusal(const ScheduleOptions& options) {
  return at_least(options, options.ranks, "P: with fewer, two versions of the weights are not enough");
}

std::string out_of_range(const char* what, long value, long low, long high) {
  if (value >= low && value <= high) return "";
  return fmt::format("{} = {} is out of range: {} to {}", what, value, low, high);
}

void check(const std::string& name, const std::string& refusal) {
  if (!refusal.empty()) throw ScheduleError(fmt::format("schedule {}: {}", name, refusal));
}

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds{
      {"gpipe", "ScheduleGPipe", 1, 1, 1, 1, 1, "all forwards, then all backwards", anything_goes, gpipe},
      {"1f1b", "Schedule1F1B", 1, 1, 1, 1, 1, "one forward, one backward", anything_goes,
       one_forward_one_backward},
      {"interleaved", "ScheduleInterleaved1F1B", 1, 1, max_chunks, 1, 1, "1F1B over v chunks a rank",
       interleaved_refusal, interleaved},
      {"bfs", "ScheduleLoopedBFS", 1, 1, max_chunks, 1, 1,
       "breadth-first: a chunk's micro-batches, then the next's", anything_goes, breadth_first},
      {"zb-h1", "ScheduleInterleavedZeroBubble", 1, 1, 1, 1, 1, "split backward in 1F1B's memory",
       anything_goes, zero_bubble_h1},
      {"zb-h2", "", 1, 1, 1, 1, 1, "split backward, twice 1F1B's memory", zero_bubble_h2_refusal,
       zero_bubble_h2},
      {"zbv", "ScheduleZBVZeroBubble", 2, 2, 2, 1, 1, "split backward, two chunks in a V", anything_goes,
       zero_bubble_v},
      {"v-half", "", 2, 2, 2, 1, 1, "V with about half of 1F1B's memory", anything_goes, v_half},
      {"v-min", "", 2, 2, 2, 1, 1, "V with about a third of 1F1B's memory", anything_goes, v_min},
      {"dualpipe", "", 1, 1, 1, 2, 1, "both directions at once, two copies", dual_pipe_refusal, dual_pipe},
      {"dualpipev", "ScheduleDualPipeV", 2, 2, 2, 1, 1, "DualPipe folded to a V, one copy",
       dual_pipe_v_refusal, dual_pipe_v},
      {"chimera", "", 1, 1, 1, 2, 1, "two 1F1B pipelines in opposite directions", chimera_refusal, chimera},
      {"hanayo", "", 2, 2, max_chunks, 1, 1, "waves: stages run down and up the ranks", hanayo_refusal,
       hanayo},
      {"2bw", "", 1, 1, 1, 1, 2, "1F1B without a flush (asynchronous)", two_buffered_refusal,
       two_buffered_weights},
  };
  return kinds;
}

const ScheduleKind& find_schedule_kind(const std::string& name) {
  std::vector<std::string> names;
  std::string known;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (name == kind.name) return kind;
    names.emplace_back(kind.name);
    known += fmt::format("{}, ", kind.name);
  }
  const std::string near = nearest(name, names);
  throw ScheduleError(fmt::format("unknown schedule \"{}\"; {}known: {}file:<path>.csv", name,
                                  near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near), known));
}

int copies_of(const std::string& name) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (name == kind.name) return kind.copies;
  }
  return 1;
}

int versions_of(const std::string& name) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (name == kind.name) return kind.versions;
  }
  return 1;
}

Schedule generate(const std::string& name, const ScheduleOptions& asked) {
  if (name.rfind("file:", 0) == 0) return read_csv_file(name.substr(5), asked);
  check(name, out_of_range("pipeline ranks P", asked.ranks, 1, max_ranks));
  check(name, out_of_range("micro-batches M", asked.micro_batches, 1, max_micro_batches));
  check(name, out_of_range("chunks v", asked.chunks, 0, max_chunks));
  check(name, out_of_range("steps", asked.steps, 1, 64));
  check(name, out_of_range("warm-up slack", asked.warmup_slack, 0, max_micro_batches));
  check(name, out_of_range("group", asked.group, 0, max_micro_batches));

  const ScheduleKind& kind = find_schedule_kind(name);
  ScheduleOptions options = asked;
  if (options.chunks == 0) options.chunks = kind.default_chunks;
  if (options.chunks < kind.min_chunks || options.chunks > kind.max_chunks) {
    const std::string allowed = kind.min_chunks == kind.max_chunks
                                    ? fmt::format("exactly {}", kind.min_chunks)
                                    : fmt::format("{} to {}", kind.min_chunks, kind.max_chunks);
    check(name, fmt::format("has {} chunk(s) a rank; {} were asked for", allowed, options.chunks));
  }
  if (options.warmup_slack > 0 && kind.generate != one_forward_one_backward) {
    check(name, "has no warm-up slack; only 1f1b has");
  }
  if (options.steps > 1 && kind.versions == 1) {
    check(name, "is flushed after every step: it is listed one step at a time");
  }
  check(name, out_of_range("stages P * v", static_cast<long>(options.ranks) * options.chunks, 1, max_stages));
  const long actions = 3L * options.ranks * options.chunks * options.micro_batches * options.steps;
  if (actions > max_actions) {
    check(name, fmt::format(
                    "P = {}, v = {}, M = {} make up to {} actions; at most {} are handled: lower one of them",
                    options.ranks, options.chunks, options.micro_batches, actions, max_actions));
  }
  check(name, kind.refusal(options));
  if (kind.generate == interleaved && options.group == 0) {
    options.group = interleaved_group(options.ranks, options.micro_batches);
  }
  return kind.generate(options);
}

// As many micro-batches as any schedule asks for.
Schedule placement(const std::string& name, const ScheduleOptions& asked) {
  ScheduleOptions options = asked;
  options.warmup_slack = 0;
  if (name.rfind("file:", 0) != 0) options.micro_batches = 2 * options.ranks;
  Schedule placed = generate(name, options);
  placed.micro_batches = 1;
  placed.copies = 1;
  placed.asynchronous = false;
  placed.rank_of_stage.resize(static_cast<size_t>(placed.blocks()));
  for (std::vector<Action>& actions : placed.actions) actions.clear();
  return placed;
}

}  // namespace penstock::schedule
