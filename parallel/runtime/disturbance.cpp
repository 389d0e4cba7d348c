#include "parallel/runtime/disturbance.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace penstock::runtime {

namespace {

using Kind = Disturbance::Kind;

constexpr double most_percent = 1e6;
constexpr double longest_seconds = 1e6;

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) { advance(); }

  Disturbance read() {
    Disturbance made;
    if (take("step")) read_steps(made);
    if (take("every")) {
      made.every = whole("how many steps apart", word_);
      if (made.every == 0) fail("1 or more steps apart");
      advance();
    }
    read_kind(made);
    if (!word_.empty()) fail("the end");
    return made;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    const size_t column = static_cast<size_t>(word_.data() - text_.data()) + 1;
    throw DisturbanceError(fmt::format(
        "disturbance \"{}\", column {}: {} where {} is expected; for example: step 200.. rank 5 slower 20%",
        text_, column, word_.empty() ? "the end" : fmt::format("\"{}\"", word_), expected));
  }

  void advance() {
    constexpr std::string_view blanks = " \t";
    const size_t begin = std::min(text_.find_first_not_of(blanks, next_), text_.size());
    next_ = std::min(text_.find_first_of(blanks, begin), text_.size());
    word_ = text_.substr(begin, next_ - begin);
  }

  bool take(std::string_view word) {
    if (word_ != word) return false;
    advance();
    return true;
  }

  uint64_t whole(const char* what, std::string_view text) const {
    const auto value = number<uint64_t>(text);
    if (!value) fail(what);
    return *value;
  }

  void read_steps(Disturbance& made) {
    const size_t dots = word_.find("..");
    made.first = whole("a step (200, 200.., 200..300)", word_.substr(0, dots));
    if (dots == std::string_view::npos) {
      made.last = made.first;
    } else if (const std::string_view last = word_.substr(dots + 2); !last.empty()) {
      made.last = whole("a step (200, 200.., 200..300)", last);
      if (made.last < made.first) fail("a last step that is not before the first");
    }
    advance();
  }

  void read_kind(Disturbance& made) {
    if (take("rank")) {
      made.from = index("a rank", word_);
      advance();
      if (take("host")) {
        made.kind = Kind::host;
        made.seconds = seconds(true);
      } else if (take("data")) {
        made.kind = Kind::data;
        made.seconds = seconds(true);
      } else {
        made.kind = Kind::rank;
        read_factor(made, "slower, faster, host or data");
      }
    } else if (take("stage")) {
      made.kind = Kind::stage;
      made.from = index("a stage", word_);
      advance();
      read_factor(made, "slower or faster");
    } else if (take("link")) {
      made.kind = Kind::link;
      const size_t arrow = word_.find("->");
      if (arrow == std::string_view::npos) fail("a link (3->4)");
      made.from = index("a link (3->4)", word_.substr(0, arrow));
      made.to = index("a link (3->4)", word_.substr(arrow + 2));
      if (made.to == made.from) fail("a link between two ranks");
      advance();
      made.seconds = seconds(true);
    } else if (word_ == "evaluation" || word_ == "checkpoint") {
      made.kind = word_ == "evaluation" ? Kind::evaluation : Kind::checkpoint;
      advance();
      if (!take("pause")) fail("pause");
      made.seconds = seconds(false);
    } else {
      fail("step, every, rank, stage, link, evaluation or checkpoint");
    }
  }

  int index(const char* what, std::string_view text) const {
    const auto value = number<int>(text);
    if (!value || *value < 0) fail(what);
    return *value;
  }

  void read_factor(Disturbance& made, const char* words) {
    const bool slower = word_ == "slower";
    if (!slower && word_ != "faster") fail(words);
    advance();
    const auto percent = word_.empty() || word_.back() != '%'
                             ? std::nullopt
                             : number<double>(word_.substr(0, word_.size() - 1));
    if (!percent || !(*percent > 0) || (slower ? *percent > most_percent : *percent >= 100))
      fail(slower ? "a share (20%) above 0% and up to 1000000%" : "a share above 0% and below 100%");
    made.factor = slower ? 1 + *percent / 100 : 1 - *percent / 100;
    advance();
  }

  double seconds(bool plus) {
    std::string_view text = word_;
    if (plus && !text.empty() && text.front() == '+') text.remove_prefix(1);
    const size_t end = text.find_last_of("0123456789.");
    const std::string_view unit = end == std::string_view::npos ? text : text.substr(end + 1);
    const double scale = unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1;
    const auto value = number<double>(text.substr(0, text.size() - unit.size()));
    if (!value || !(*value > 0) || *value * scale > longest_seconds ||
        (unit != "us" && unit != "ms" && unit != "s"))
      fail("a time (5ms, 400us, 2s) above 0 and up to 1000000s");
    advance();
    return *value * scale;
  }

  std::string_view text_;
  std::string_view word_;
  size_t next_ = 0;
};

}  // namespace

Disturbance read_disturbance(std::string_view text) {
  return Reader(text).read();
}

std::string to_string(const Disturbance& at) {
  std::string text;
  if (at.last == at.first) {
    text = fmt::format("step {} ", at.first);
  } else if (at.last != std::numeric_limits<uint64_t>::max()) {
    text = fmt::format("step {}..{} ", at.first, at.last);
  } else if (at.first > 0) {
    text = fmt::format("step {}.. ", at.first);
  }
  if (at.every > 1) text += fmt::format("every {} ", at.every);
  const auto factor = [&](const char* what) {
    return fmt::format("{} {} {} {:g}%", what, at.from, at.factor < 1 ? "faster" : "slower",
                       100 * std::abs(at.factor - 1));
  };
  const double ms = at.seconds * 1e3;
  switch (at.kind) {
    case Kind::rank:
      return text + factor("rank");
    case Kind::stage:
      return text + factor("stage");
    case Kind::host:
      return text + fmt::format("rank {} host +{:g}ms", at.from, ms);
    case Kind::data:
      return text + fmt::format("rank {} data +{:g}ms", at.from, ms);
    case Kind::link:
      return text + fmt::format("link {}->{} +{:g}ms", at.from, at.to, ms);
    case Kind::evaluation:
      return text + fmt::format("evaluation pause {:g}ms", ms);
    case Kind::checkpoint:
      return text + fmt::format("checkpoint pause {:g}ms", ms);
  }
  return text;
}

void require_fitting(const std::vector<Disturbance>& disturbances, const schedule::Program& program) {
  std::set<std::pair<int, int>> links;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (const schedule::Instruction& each : program.ranks[rank].instructions) {
      if (each.kind == schedule::InstructionKind::send) links.emplace(static_cast<int>(rank), each.peer);
    }
  }
  for (const Disturbance& each : disturbances) {
    const auto refuse = [&](const std::string& why) {
      throw DisturbanceError(fmt::format("disturbance \"{}\": {}", to_string(each), why));
    };
    const auto require = [&](int index, const char* what, int count) {
      if (index >= count)
        refuse(fmt::format("there is no {} {}; the replay has {}s 0 to {}", what, index, what, count - 1));
    };
    if (each.kind == Kind::stage) {
      require(each.from, "stage", program.schedule.stages());
    } else if (each.kind != Kind::evaluation && each.kind != Kind::checkpoint) {
      require(each.from, "rank", program.schedule.ranks);
      if (each.kind == Kind::link) require(each.to, "rank", program.schedule.ranks);
    }
    if (each.kind != Kind::link || links.count({each.from, each.to}) > 0) continue;
    std::string known;
    for (const auto& [from, to] : links) {
      if (from == each.from || to == each.to)
        known += fmt::format("{}{}->{}", known.empty() ? "" : ", ", from, to);
    }
    refuse(fmt::format("no message goes from rank {} to rank {}; links of these ranks: {}", each.from,
                       each.to, known.empty() ? "none" : known));
  }
}

void require_within(const std::vector<Disturbance>& disturbances, uint64_t first, uint64_t steps) {
  const uint64_t last = first + steps - 1;
  for (const Disturbance& each : disturbances) {
    // The first step of the replay that is not before the disturbance's, in its rhythm.
    uint64_t next = each.first;
    if (first > each.first) next += (first - each.first + each.every - 1) / each.every * each.every;
    if (next <= std::min(last, each.last)) continue;
    throw DisturbanceError(
        fmt::format("disturbance \"{}\": it applies to none of the steps {} to {} that are replayed; raise "
                    "--steps, or name one of these",
                    to_string(each), first, last));
  }
}

}  // namespace penstock::runtime
