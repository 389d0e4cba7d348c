#include "trainer/report/progress_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "trainer/report/terminal.h"

namespace penstock::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto redraw_period = std::chrono::milliseconds(100);
constexpr auto plain_period = std::chrono::seconds(10);
constexpr int widest_bar = 30;

std::string with_separators(uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

}  // namespace

ProgressTarget ProgressTarget::standard_error() {
  ProgressTarget target;
  const Terminal terminal = terminal_of(target.stream);
  target.redraw = terminal.redraw;
  target.columns = terminal.columns;
  return target;
}

std::string format_amount(uint64_t amount, ProgressUnit kind, const std::string& unit) {
  if (kind == ProgressUnit::count) {
    return fmt::format("{}{}{}", with_separators(amount), unit.empty() ? "" : " ", unit);
  }
  static constexpr std::array<const char*, 6> prefixes{"k", "M", "G", "T", "P", "E"};
  if (amount < 1000) return fmt::format("{} {}", amount, unit);
  double value = static_cast<double>(amount) / 1000;
  size_t prefix = 0;
  for (; value >= 999.95 && prefix + 1 < prefixes.size(); ++prefix) value /= 1000;
  return fmt::format("{:.1f} {}{}", value, prefixes[prefix], unit);
}

std::string format_duration(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 3.6e9)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

ProgressBar::ProgressBar(ProgressOptions options, ProgressTarget target)
    : options_(std::move(options)),
      target_(std::move(target)),
      start_(target_.now()),
      drawn_(start_),
      done_(options_.before) {
  if (target_.redraw) draw(false);
}

ProgressBar::~ProgressBar() {
  if (!line_open_) return;
  std::fputc('\n', target_.stream);
  std::fflush(target_.stream);
}

void ProgressBar::update(uint64_t done) {
  done_ = done;
  const Clock::time_point now = target_.now();
  if (now - drawn_ < (target_.redraw ? Clock::duration(redraw_period) : Clock::duration(plain_period)))
    return;
  drawn_ = now;
  draw(false);
}

void ProgressBar::finish() {
  if (finished_) return;
  finished_ = true;
  draw(true);
}

std::string ProgressBar::line(bool last) const {
  const double seconds = std::chrono::duration<double>(target_.now() - start_).count();
  const double rate =
      seconds > 0 ? static_cast<double>(done_ - std::min(done_, options_.before)) / seconds : 0;
  std::string text = options_.label + " ";
  std::string tail = format_amount(done_, options_.kind, options_.unit);
  if (options_.total && *options_.total > 0) {
    const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(*options_.total));
    text += fmt::format("{:3.0f} % ", std::floor(100 * share));
    tail = format_amount(done_, options_.kind, options_.kind == ProgressUnit::bytes ? options_.unit : "") +
           " / " + format_amount(*options_.total, options_.kind, options_.unit);
    if (!last && rate > 0) {
      const double left = static_cast<double>(*options_.total) * (1 - share) / rate;
      tail += fmt::format("  {} left", format_duration(left));
    }
  }
  if (seconds > 0) {
    const auto whole_rate = static_cast<uint64_t>(std::min(rate, 1e18));
    tail += fmt::format("  {}/s", format_amount(whole_rate, options_.kind, options_.unit));
  }
  if (last) tail += "  in " + format_duration(seconds);
  const int room = target_.columns - 1 - static_cast<int>(text.size() + tail.size()) - 3;
  if (target_.redraw && options_.total && *options_.total > 0 && room >= 5) {
    const int width = std::min(room, widest_bar);
    const auto full = static_cast<int>(static_cast<double>(std::min(done_, *options_.total)) /
                                       static_cast<double>(*options_.total) * width);
    text += fmt::format("[{:<{}}] ", std::string(static_cast<size_t>(full), '#'), width);
  }
  text += tail;
  if (target_.redraw && static_cast<int>(text.size()) >= target_.columns) {
    text.resize(
        static_cast<size_t>(std::max(target_.columns - 1, 0)));  // a wrapped line could not be redrawn
  }
  return text;
}

void ProgressBar::draw(bool last) {
  std::string text = line(last);
  if (target_.redraw) text = fmt::format("\r{}\x1b[K", text);
  if (last || !target_.redraw) text += "\n";
  line_open_ = target_.redraw && !last;
  std::fwrite(text.data(), 1, text.size(), target_.stream);
  std::fflush(target_.stream);
}

}  // namespace penstock::report
