#include "parallel/schedule/csv.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

namespace penstock::schedule {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw ScheduleError(what);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A number at text[at…], which moves past it; nothing if there is none. What does not fit becomes `limit`
// + 1.
std::optional<int> read_number(std::string_view text, size_t& at, int limit) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  long value = 0;
  for (; at < text.size() && is_digit(text[at]); ++at)
    value = std::min(value * 10 + (text[at] - '0'), limit + 1L);
  return static_cast<int>(value);
}

std::string_view trimmed(std::string_view cell) {
  constexpr const char* blank = " \t\r";
  const size_t first = cell.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  cell = cell.substr(first, cell.find_last_not_of(blank) - first + 1);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
    return trimmed(cell.substr(1, cell.size() - 2));
  return cell;
}

// One "<stage><op><micro-batch>"; `place` opens the message.
Action read_action(std::string_view cell, const std::string& place) {
  constexpr int stage_limit = 2 * max_stages - 1;
  const auto expected = [&] {
    const bool transfer = cell.find("SEND") != cell.npos || cell.find("RECV") != cell.npos;
    fail(fmt::format(
        "{}: \"{}\" is not an action: expected <stage><op><micro-batch> with op F, I, W or B, such as 3F7{}",
        place, cell.substr(0, 40),
        transfer ? "; transfers are placed by Penstock: export the compute-only schedule" : ""));
  };
  size_t at = 0;
  Action action;
  const std::optional<int> stage = read_number(cell, at, stage_limit);
  if (!stage || at >= cell.size()) expected();
  switch (cell[at++]) {
    case 'F':
      action.op = Op::forward;
      break;
    case 'I':
      action.op = Op::backward_input;
      break;
    case 'W':
      action.op = Op::backward_weight;
      break;
    case 'B':
      action.op = Op::backward;
      break;
    default:
      expected();
  }
  const std::optional<int> micro_batch = read_number(cell, at, max_micro_batches - 1);
  if (!micro_batch || at != cell.size()) expected();
  if (*stage > stage_limit) fail(fmt::format("{}: \"{}\": the stage is above {}", place, cell, stage_limit));
  if (*micro_batch >= max_micro_batches) {
    fail(fmt::format("{}: \"{}\": the micro-batch is above {}", place, cell, max_micro_batches - 1));
  }
  action.stage = *stage;
  action.micro_batch = *micro_batch;
  return action;
}

// A cell's actions: one, or the two of "(0F3;1B2)OVERLAP_F_B".
void read_cell(std::string_view cell, const std::string& place, std::vector<Action>& actions) {
  constexpr std::string_view overlap = ")OVERLAP_F_B";
  if (cell.front() != '(') {
    actions.push_back(read_action(cell, place));
    return;
  }
  const size_t middle = cell.find(';');
  if (middle == cell.npos || cell.size() < overlap.size() ||
      cell.substr(cell.size() - overlap.size()) != overlap) {
    fail(fmt::format("{}: \"{}\": expected (<action>;<action>)OVERLAP_F_B", place, cell.substr(0, 60)));
  }
  Action first = read_action(cell.substr(1, middle - 1), place);
  const Action second =
      read_action(cell.substr(middle + 1, cell.size() - overlap.size() - middle - 1), place);
  first.paired = first.op == Op::forward && second.op == Op::backward;
  actions.push_back(first);
  actions.push_back(second);
}

// Fills in stages, chunks, copies and placement from the actions; `places` holds a line number for each rank.
void complete(Schedule& schedule, const std::string& source, const std::vector<int>& lines) {
  int stages = 0;
  schedule.micro_batches = 0;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      stages = std::max(stages, action.stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
    }
  }
  if (stages == 0)
    fail(fmt::format("{}: no action in it: expected one row a rank of cells such as 0F0", source));
  if (static_cast<long>(stages) * schedule.micro_batches > max_actions) {
    fail(fmt::format("{}: {} stages with {} micro-batches are more than {} actions", source, stages,
                     schedule.micro_batches, max_actions));
  }
  schedule.rank_of_stage.assign(static_cast<size_t>(stages), -1);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    for (const Action& action : schedule.actions[r]) {
      int& owner = schedule.rank_of_stage[static_cast<size_t>(action.stage)];
      if (owner >= 0 && owner != rank) {
        fail(fmt::format("{}:{}: rank {} runs {}, but stage {} stands in the row of rank {} as well", source,
                         lines[r], rank, to_string(action), action.stage, owner));
      }
      owner = rank;
    }
  }
  std::vector<int> owned(static_cast<size_t>(schedule.ranks), 0);
  for (int stage = 0; stage < stages; ++stage) {
    const int owner = schedule.rank_of_stage[static_cast<size_t>(stage)];
    if (owner < 0) {
      fail(fmt::format(
          "{}: stage {} is in no row, though stages up to {} are: they are numbered from 0 without a gap",
          source, stage, stages - 1));
    }
    ++owned[static_cast<size_t>(owner)];
  }
  for (size_t r = 0; r < owned.size(); ++r) {
    if (owned[r] * schedule.ranks != stages) {
      fail(fmt::format("{}:{}: rank {} has {} stage(s), but {} stages on {} ranks are {:.3g} each", source,
                       lines[r], r, owned[r], stages, schedule.ranks,
                       static_cast<double>(stages) / schedule.ranks));
    }
  }
  // Two copies: a micro-batch passes through one half of the stages only.
  schedule.chunks = stages / schedule.ranks;
  if (stages % 2 != 0 || schedule.chunks % 2 != 0) return;
  std::vector<int> halves(static_cast<size_t>(schedule.micro_batches), 0);
  for (const auto& actions : schedule.actions) {
    for (const Action& a : actions)
      halves[static_cast<size_t>(a.micro_batch)] |= a.stage < stages / 2 ? 1 : 2;
  }
  if (std::find(halves.begin(), halves.end(), 3) != halves.end()) return;
  if (std::count(halves.begin(), halves.end(), 1) == 0 || std::count(halves.begin(), halves.end(), 2) == 0)
    return;
  schedule.copies = 2;
  schedule.chunks /= 2;
}

void agree(const std::string& source, const char* what, int asked, int found) {
  if (asked == 0 || asked == found) return;
  fail(fmt::format("{}: the file has {} {}, but {} were asked for; leave the option out to take the file's",
                   source, found, what, asked));
}

}  // namespace

std::string write_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) text += ',';
      text += to_string(actions[i]);
    }
    text += '\n';
  }
  return text;
}

Schedule read_csv(const std::string& text, const std::string& source, const ScheduleOptions& options) {
  Schedule schedule;
  schedule.name = "file:" + source;
  std::vector<int> lines;
  std::string_view rest = text;
  if (rest.substr(0, 3) == "\xEF\xBB\xBF") rest.remove_prefix(3);
  size_t actions = 0;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (trimmed(line).empty()) continue;  // an empty line is no rank: each has at least one stage
    if (static_cast<int>(lines.size()) == max_ranks)
      fail(fmt::format("{}: more than {} ranks", source, max_ranks));
    lines.push_back(line_number);
    schedule.actions.emplace_back();
    for (size_t at = 0; at <= line.size();) {
      const size_t comma = std::min(line.find(',', at), line.size());
      const std::string_view cell = trimmed(line.substr(at, comma - at));
      if (!cell.empty()) {
        const auto column = static_cast<size_t>(cell.data() - line.data()) + 1;
        read_cell(cell, fmt::format("{}:{}:{}", source, line_number, column), schedule.actions.back());
        if (static_cast<long>(++actions) > max_actions)
          fail(fmt::format("{}: over {} actions", source, max_actions));
      }
      at = comma + 1;
    }
  }
  schedule.ranks = static_cast<int>(schedule.actions.size());
  complete(schedule, source, lines);
  agree(source, "ranks (rows)", options.ranks, schedule.ranks);
  agree(source, "micro-batches", options.micro_batches, schedule.micro_batches);
  agree(source, "chunks a rank", options.chunks, schedule.chunks);
  return schedule;
}

Schedule read_csv_file(const std::string& path, const ScheduleOptions& options) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || (text.fail() && in.peek() != std::ifstream::traits_type::eof())) {
    fail(fmt::format("cannot read the schedule \"{}\": {}; expected a CSV file, one row a rank", path,
                     std::strerror(errno)));
  }
  return read_csv(text.str(), path, options);
}

}  // namespace penstock::schedule
