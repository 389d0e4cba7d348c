#include "trainer/commands/plan_job.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "parallel/planner/profile.h"
#include "trainer/backend.h"
#include "trainer/commands/plan_shown_only.h"
#include "trainer/corpus.h"
#include "trainer/job/cluster_file.h"
#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"
#include "trainer/memory_report.h"
#include "trainer/plan_figures.h"
#include "trainer/plan_json.h"
#include "trainer/plan_text.h"
#include "trainer/processor_share.h"

namespace penstock::commands {

namespace {

using planner::Candidate;
using planner::CutBy;
using planner::Plan;
using planner::PlanRequest;

// What the comparison with all schedules may take, beside the plan itself.
constexpr planner::SearchBudget comparison_budget{1.2e7, 2e4};
constexpr planner::SearchBudget change_budget{4e6, 5e3};
constexpr int64_t most_sizes = 64;

/// A job, what it is planned with, and the plan.
/// A step on a machine that has fewer processors than the ranks have threads: the ranks take turns, and the
/// work of all has to be done by the processors that there are.
struct CrowdedStep {
  ProcessorShare share;
  double seconds = 0;
};

class Planning {
 public:
  Planning(const JobArguments& arguments, const PlanJobOptions& options) : options_(options) {
    if (!options.cluster.empty() && !options.profile.empty())
      throw planner::PlanError("--cluster plans by formula with a cluster's rates: leave --profile out");
    if (!options.cluster.empty()) cluster_ = read_cluster(options.cluster);
    job_ = arguments.read(cluster_ ? cluster_->ranks() : 1);
    Corpus::open_tokenizer(job_);
    check_ranks();
    backend_ = make_backend(job_, 0);
    costs_ = costs_of(job_);
    request_ = plan_request(job_, costs_, memory_limit());
    if (options.any_micro) add_sizes();
    plan_ = planner::make_plan(request_);
  }

  const Plan& plan() const { return plan_; }
  const PlanRequest& request() const { return request_; }
  const std::string& source() const { return costs_.note; }
  const Job& job() const { return job_; }
  const PlanJobOptions& options() const { return options_; }
  Backend& backend() { return backend_; }
  bool elsewhere() const { return cluster_ || !options_.profile.empty(); }

  /// Here, where its ranks would outnumber the processors: what the plan's work takes at least.
  std::optional<CrowdedStep> crowded_step() const {
    if (elsewhere()) return std::nullopt;
    const ProcessorShare share = processor_share_here(
        job_.parallel.pipeline * std::max<int64_t>(1, job_.parallel.data), job_.parallel.threads);
    // What was measured in such a crowd shows it already.
    const double load = share.load() / std::max(1.0, costs_.threads_per_processor);
    if (!share.crowded() || load <= 1) return std::nullopt;
    const planner::Prediction& prediction = plan_.chosen.prediction;
    const double busy = prediction.step * (1 - prediction.idle_ratio);
    return CrowdedStep{share, std::max(prediction.step, busy * load)};
  }

  /// Of a cluster's those that the job takes; 0: this machine.
  int64_t devices() const {
    return cluster_ ? job_.parallel.pipeline * job_.parallel.data * cluster_->device.devices_per_rank : 0;
  }

  /// The job as a run would have it.
  Job decided() const {
    Job made = decided_job(job_, plan_);
    made.batch.micro = request_.workloads[plan_.chosen.workload].model.micro_batch;
    return made;
  }

  /// All schedules at their best, and the plan's own among them.
  std::vector<Candidate> schedules() const {
    std::vector<Candidate> all = plan_.schedules;
    PlanRequest open = request_;
    open.workloads = {request_.workloads[plan_.chosen.workload]};
    if (request_.schedule != "auto" || request_.chunks != 0 || request_.slack >= 0) {
      open.schedule = "auto";
      open.chunks = 0;
      open.slack = -1;
      if (open.cut == CutBy::listed) open.cut = CutBy::measured;
      if (!open.recompute.fixed.empty()) open.recompute = {};
      open.budget = comparison_budget;
      all = planner::make_plan(open).schedules;
      for (Candidate& each : all) each.workload = plan_.chosen.workload;
      std::erase_if(all, [&](const Candidate& each) {
        return each.schedule == plan_.chosen.schedule && each.chunks == plan_.chosen.chunks &&
               each.slack == plan_.chosen.slack;
      });
      all.insert(all.begin(), plan_.chosen);  // first among equals
    }
    // Those that are not run are known better than by their refusal.
    std::vector<Candidate> shown = shown_only(open);
    // One that the job names is in the table as it is planned.
    std::erase_if(shown, [&](const Candidate& each) { return each.schedule == plan_.chosen.schedule; });
    for (Candidate& each : shown) each.workload = plan_.chosen.workload;
    std::erase_if(all, [&](const Candidate& each) {
      return std::any_of(shown.begin(), shown.end(),
                         [&](const Candidate& other) { return other.schedule == each.schedule; });
    });
    all.insert(all.end(), shown.begin(), shown.end());
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      const auto place = [](const Candidate& each) { return each.prediction.step > 0 ? 0 : 1; };
      return std::tuple(place(a), !a.prediction.fits, a.prediction.step) <
             std::tuple(place(b), !b.prediction.fits, b.prediction.step);
    });
    return all;
  }

  /// With the schedule that was chosen.
  std::vector<planner::Sensitivity> changes() const {
    PlanRequest request = request_;
    request.schedule = plan_.chosen.schedule;
    request.chunks = plan_.chosen.chunks;
    request.slack = plan_.chosen.slack;
    request.budget = change_budget;
    return planner::sensitivities(request, plan_);
  }

 private:
  void check_ranks() const {
    const int64_t wanted = job_.parallel.pipeline * std::max<int64_t>(1, job_.parallel.data);
    if (!cluster_ || wanted <= cluster_->ranks()) return;
    throw planner::PlanError(
        fmt::format("the job takes pipeline x data = {} x {} = {} ranks; {} has {} nodes of {} ranks",
                    job_.parallel.pipeline, job_.parallel.data, wanted, options_.cluster,
                    cluster_->cluster.nodes, cluster_->cluster.ranks_per_node));
  }

  JobCosts costs_of(const Job& job) {
    if (cluster_) return costs_on_cluster(job, backend_, *cluster_);
    if (!options_.profile.empty()) return costs_from_profile(job, backend_, options_.profile);
    return job_costs(job, backend_, nullptr);
  }

  std::optional<planner::ModelCosts> costs_at(int64_t size) {
    Job other = job_;
    other.batch.micro = size;
    try {
      return costs_of(other).model;
    } catch (const planner::ProfileError&) {  // measured for other sizes
      return std::nullopt;
    }
  }

  std::optional<int64_t> memory_limit() const {
    std::optional<int64_t> limit = stated_memory_limit(job_);
    if (cluster_ && cluster_->device.memory_gib > 0) {
      const auto device =
          static_cast<int64_t>(cluster_->device.memory_gib * (1 << 30)) * cluster_->device.devices_per_rank;
      limit = std::min(limit.value_or(device), device);
    }
    if (limit) return arena_limit(job_, *limit);
    if (elsewhere()) return std::nullopt;
    return device_memory_limit(job_, *backend_.device, job_.parallel.pipeline * job_.parallel.data);
  }

  void add_sizes() {
    const int64_t sequences = job_.batch.micro * job_.micro_batches();
    for (int64_t size = 1; size <= std::min(sequences, most_sizes); size *= 2) {
      if (sequences % size != 0 || size == job_.batch.micro) continue;
      if (std::optional<planner::ModelCosts> costs = costs_at(size))
        request_.workloads.push_back({std::move(*costs), static_cast<int>(sequences / size)});
    }
  }

  PlanJobOptions options_;
  std::optional<Cluster> cluster_;
  Job job_;
  Backend backend_;
  JobCosts costs_;
  PlanRequest request_;
  Plan plan_;
};

std::string ranks_text(const Job& job) {
  return job.parallel.data > 1
             ? fmt::format("{} pipeline ranks x {} replicas", job.parallel.pipeline, job.parallel.data)
             : fmt::format("{} pipeline rank{}", job.parallel.pipeline,
                           job.parallel.pipeline == 1 ? "" : "s");
}

// What would be better than what the job fixes, in the job's own words.
std::string advice(const Planning& planning, const std::vector<Candidate>& schedules) {
  const Candidate& chosen = planning.plan().chosen;
  for (const Candidate& best : schedules) {
    if (!best.refusal.empty() || !best.prediction.fits) continue;
    const double gain = chosen.prediction.step / best.prediction.step - 1;
    if (gain < 0.005) return "";
    return fmt::format("parallel.schedule = \"auto\" would take {}: {:.1f} % more tokens a second\n",
                       name_of(best), 100 * gain);
  }
  return "";
}

void print(Planning& planning, std::ostream& out) {
  const Plan& plan = planning.plan();
  const PlanRequest& request = planning.request();
  const Job& job = planning.job();
  const planner::Workload& workload = request.workloads[plan.chosen.workload];
  out << fmt::format("{}; {} micro-batches of {} x {} tokens; {}\n", ranks_text(job), plan.micro_batches,
                     workload.model.micro_batch, job.model.sequence_length, planning.source());
  if (request.workloads.size() > 1 && workload.model.micro_batch != job.batch.micro) {
    out << fmt::format(
        "batch.micro = {} is better than the job's {}; results then differ in their last bits\n",
        workload.model.micro_batch, job.batch.micro);
  }
  out << fmt::format("plan: {}{}\n\n", plan_line(plan), plan.chosen.proved ? " (no cut is better)" : "");
  const std::string misfit = misfit_text(plan.chosen.prediction, request.machine);
  if (!misfit.empty()) {
    out << "nothing fits: of all that the job leaves open, this plan misses its memory least, and its "
           "figures "
           "are of a step\nthat cannot be run\n"
        << misfit << "to fit, " << memory_advice(job) << "\n\n";
  }
  const std::vector<std::string> limits = planner::limits(request, plan);
  if (!planning.options().brief) out << stage_map(plan, request) << "\n";
  out << step_table(plan, request.machine);
  if (planning.devices() > 0) {
    out << fmt::format("of each device        {:.5g} tokens a second ({} devices)\n",
                       plan.chosen.prediction.tokens_per_second / static_cast<double>(planning.devices()),
                       planning.devices());
  }
  if (const auto crowded = planning.crowded_step()) {
    out << fmt::format(
        "on this machine      {:.5g} ms at least: {}; the figures above are for ranks with processors of "
        "their own\n",
        1e3 * crowded->seconds, crowded->share.text());
  }
  out << "\n";
  if (limits.empty()) out << "nothing holds the step back by 1 % or more\n";
  for (const std::string& limit : limits) out << "held back: " << limit << "\n";
  const bool recomputes = job.recompute.mode != RecomputeMode::none || !job.recompute.stages.empty();
  if (recomputes) out << without_saving(plan);
  if (!planning.options().brief) {
    if (job.parallel.pipeline > 1) {
      const std::vector<Candidate> schedules = planning.schedules();
      out << "\n" << schedule_table(schedules, plan.chosen, request) << advice(planning, schedules);
      out << "\n" << cut_table(plan);
    }
    out << "\n" << sensitivity_table(planning.changes());
  }
  if (!planning.options().memory) return;
  const Job decided = planning.decided();
  const runtime::PipelinePlan pipeline = runtime::plan_pipeline(pipeline_request(decided));
  out << "\n" << table(memory_report(decided, planning.backend(), pipeline));
}

void print_json(Planning& planning, std::ostream& out) {
  nlohmann::ordered_json plan = to_json(planning.plan(), planning.request());
  plan["source"] = planning.source();
  if (const auto crowded = planning.crowded_step()) {
    plan["oversubscribed"] = {{"threads_per_processor", crowded->share.load()},
                              {"least_step_ms", 1e3 * crowded->seconds}};
  }
  nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
  for (const Candidate& candidate : planning.schedules()) {
    schedules.push_back(to_json(candidate, planning.request()));
  }
  plan["schedules"] = schedules;
  plan["sensitivities"] = to_json(planning.changes());
  nlohmann::ordered_json file;
  const Job decided = planning.decided();
  // A program that is too long to simulate is too long to be lowered for a table.
  if (planning.plan().chosen.prediction.simulated) {
    file = to_json(
        memory_report(decided, planning.backend(), runtime::plan_pipeline(pipeline_request(decided))));
  }
  file["plan"] = plan;
  out << file.dump(2) << "\n";
}

}  // namespace

void add_plan_job_options(CLI::App& plan, PlanJobOptions& options) {
  plan.add_option(
          "--profile", options.profile,
          "the costs of the job's units, measured on any machine; without it: the job's own profile, or "
          "formulas")
      ->type_name("FILE");
  plan.add_option("--cluster", options.cluster,
                  "plan for the machine that this file describes (configs/clusters/)")
      ->type_name("FILE");
  plan.add_flag("--any-micro", options.any_micro, "try other micro-batch sizes too; the batch stays");
  plan.add_flag("--brief", options.brief, "only the plan, its step, and what limits it");
  plan.add_flag("--memory", options.memory, "every arena and piece of every rank too");
}

int run_plan_job(const JobArguments& arguments, const PlanJobOptions& options, bool json, std::ostream& out) {
  Planning planning(arguments, options);
  json ? print_json(planning, out) : print(planning, out);
  // After the pieces: they say what to cut.
  if (planning.elsewhere()) {
    const std::string misfit = misfit_text(planning.plan().chosen.prediction, planning.request().machine);
    if (!misfit.empty())
      throw MemoryLimitError("nothing that the job leaves open fits the memory there:\n" + misfit +
                             "to fit, " + memory_advice(planning.job()));
  } else {
    const Job decided = planning.decided();
    const runtime::PipelinePlan pipeline = runtime::plan_pipeline(pipeline_request(decided));
    check_memory_limit(memory_report(decided, planning.backend(), pipeline), planning.job(),
                       *planning.backend().device, false);
  }
  return 0;
}

}  // namespace penstock::commands
