#include "trainer/watchdog/roll_call.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::watchdog {

void RollCall::heard(const Heartbeat& beat, double now, double ago) {
  if (beat.rank < 0 || beat.rank >= ranks()) return;
  Entry& of = entry(beat.rank);
  if (of.at && *of.at > now - ago) return;
  of.beat = beat;
  of.at = now - ago;
}

void RollCall::introduce(int rank, const std::string& place, double now) {
  entry(rank).place = place;
  entry(rank).at = now;
}

void RollCall::gone(int rank) {
  entry(rank).gone = true;
}

void RollCall::left(int rank) {
  entry(rank).left = true;
}

void RollCall::stood_still(double seconds) {
  for (Entry& each : entries_) {
    if (each.at) *each.at += seconds;
  }
}

std::optional<double> RollCall::silence(int rank, double now) const {
  const Entry& of = entry(rank);
  if (!of.at) return std::nullopt;
  return std::max(0.0, now - *of.at);
}

std::string RollCall::name(int rank) const {
  const std::string& place = entry(rank).place;
  return place.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, place);
}

int RollCall::lowest_living(double now) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!is_gone(rank) && !has_left(rank) && silence(rank, now).value_or(0) <= silent_after) return rank;
  }
  return 0;
}

std::string RollCall::culprit(double now) const {
  std::vector<std::string> lost;
  std::vector<std::string> silent;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (has_left(rank)) continue;
    if (is_gone(rank)) {
      lost.push_back(name(rank));
    } else if (const auto silence_of = silence(rank, now); silence_of && *silence_of > silent_after) {
      silent.push_back(fmt::format("{} has not been heard of for {}", name(rank), seconds_text(*silence_of)));
    }
  }
  if (!lost.empty()) {
    return fmt::format(
        "{} {} gone: {} connection ended without a word, so that the process was killed or has crashed",
        fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are", lost.size() == 1 ? "its" : "their");
  }
  if (!silent.empty()) {
    return fmt::format("{}: stopped (SIGSTOP, a debugger), cut off from the network, or its machine hangs",
                       fmt::join(silent, "; "));
  }
  if (std::string found = disagreement(); !found.empty()) return found;
  return chain_end();
}

// Ranks of one run are in the same phase of the same step, or about to be: who is elsewhere runs another
// program, or decided otherwise.
std::string RollCall::disagreement() const {
  std::map<std::pair<Phase, int64_t>, std::vector<int>> groups;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (const auto& beat = last(rank); beat && !has_left(rank))
      groups[{beat->phase, beat->step}].push_back(rank);
  }
  if (groups.size() < 2) return {};
  std::vector<std::string> texts;
  for (const auto& [where, members] : groups) {
    const size_t shown = std::min<size_t>(members.size(), 8);
    texts.push_back(
        fmt::format("rank{} {}{} in {}{}", members.size() == 1 ? "" : "s",
                    fmt::join(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    shown < members.size() ? ", …" : "", name_of(where.first),
                    where.second > 0 ? fmt::format(" (step {})", where.second) : ""));
  }
  return fmt::format("the ranks are not at the same place: {}", fmt::join(texts, "; "));
}

std::string RollCall::chain_end() const {
  // From a rank that waits to the one that it waits for, until one works, or comes again.
  for (int first = 0; first < ranks(); ++first) {
    const auto& start = last(first);
    if (!start || !start->activity.waits_for_peer()) continue;
    std::vector<int> chain;
    int at = first;
    while (at >= 0 && at < ranks() && last(at) && last(at)->activity.waits_for_peer() &&
           std::find(chain.begin(), chain.end(), at) == chain.end()) {
      chain.push_back(at);
      at = last(at)->activity.peer;
    }
    if (at < 0 || at >= ranks() || !last(at)) continue;
    const auto again = std::find(chain.begin(), chain.end(), at);
    if (again == chain.end())
      return fmt::format("the others wait for {}, which {}", name(at), last(at)->text());
    return fmt::format("ranks wait for one another in a circle: {}, {}",
                       fmt::join(again, chain.end(), " for "), at);
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto& beat = last(rank);
    if (beat && beat->activity.kind == Activity::Kind::computes)
      return fmt::format("{} {}", name(rank), beat->text());
  }
  return {};
}

std::string RollCall::where(const Heartbeat& own, double now) const {
  std::string text = fmt::format("rank {}", own.rank);
  if (own.stage >= 0) text += fmt::format(", stage {}", own.stage);
  if (own.step > 0) text += fmt::format(", step {}", own.step);
  text += ": " + own.text();
  const int peer = own.activity.peer;
  if (peer < 0 || peer >= ranks() || peer == own.rank) return text;
  const std::optional<double> silent = silence(peer, now);
  if (is_gone(peer)) return text + fmt::format("; {} is gone", name(peer));
  if (!last(peer) || !silent) return text + fmt::format("; nothing was heard of {}", name(peer));
  return text + fmt::format("; rank {} {}; heard {} ago", peer, last(peer)->text(), seconds_text(*silent));
}

}  // namespace penstock::watchdog
