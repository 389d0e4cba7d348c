#pragma once

namespace penstock {

/// [watchdog]: seconds without progress after which the job is ended with a report and exit code 70.
struct WatchdogSection {
  double start_s = 300;
  double first_step_s = 300;
  double step_factor = 10;
  double step_min_s = 30;
  double evaluation_s = 600;
  double checkpoint_s = 600;

  bool operator==(const WatchdogSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("start_s", start_s)
        .above(0)
        .help(
            "from launch until every rank is connected, then each part of the start (planning, reading and "
            "so on), "
            "seconds");
    v.key("first_step_s", first_step_s)
        .above(0)
        .help(
            "the first step, the first one after a change of the arrangement, and the change itself, "
            "seconds");
    v.key("step_factor", step_factor)
        .above(0)
        .help("a later step may take this many times the median of the last ones");
    v.key("step_min_s", step_min_s).above(0).help("and at least this long, seconds");
    v.key("evaluation_s", evaluation_s).above(0).help("one evaluation, or check of the numbers, seconds");
    v.key("checkpoint_s", checkpoint_s)
        .above(0)
        .help("one save, reading a checkpoint, a rollback, and the end of the run, seconds");
  }
};

}  // namespace penstock
