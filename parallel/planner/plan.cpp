#include "parallel/planner/plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/check_request.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/predict.h"
#include "parallel/planner/variants.h"

namespace penstock::planner {

namespace {

// Programs are simulated while they have no more actions than this, all together; then graphs predict.
constexpr size_t simulated_actions = 100'000;
// Of the budget, what the first look at every schedule takes; the rest is for the best of them.
constexpr double first_look = 0.4;
constexpr size_t finalists = 4;
constexpr int buffer_rounds = 3;
// Larger graphs are not kept after their search.
constexpr size_t kept_actions = 1'000'000;

constexpr CutBy model_cuts[] = {CutBy::layers, CutBy::parameters, CutBy::flops};

/// A variant under search.
struct Contender {
  Variant variant;
  std::unique_ptr<LayoutScorer> scorer;
  SearchResult found;
  SimulatedStep step;
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {
    check_request(request);
    for (const Workload& workload : request.workloads) sums_.emplace_back(workload.model);
  }

  Plan run() {
    std::vector<Variant> variants = list_variants(request_);
    for (Variant& variant : variants) {
      if (variant.refusal.empty()) {
        contenders_.push_back({std::move(variant), nullptr, {}, {}});
      } else {
        refused_.push_back(std::move(variant));
      }
    }
    if (contenders_.empty()) refuse();
    search();
    return finish(settle_winner());
  }

 private:
  const UnitSums& sums(const Variant& variant) const {
    return *std::next(sums_.begin(), static_cast<std::ptrdiff_t>(variant.workload));
  }

  [[noreturn]] void refuse() const {
    std::string reasons;
    for (const Variant& variant : refused_)
      reasons += fmt::format("\n  {} with {} chunks: {}", variant.schedule, variant.chunks, variant.refusal);
    throw PlanError("no schedule can be run:" + reasons);
  }

  std::vector<std::vector<int>> cuts(const Contender& contender) const {
    std::vector<std::vector<int>> all;
    for (const CutBy cut : model_cuts)
      all.push_back(
          cut_evenly(cut_weights(sums(contender.variant).model(), cut), contender.variant.stages()));
    return all;
  }

  // Layouts of one schedule are layouts of others with as many stages.
  std::vector<std::vector<int>> known_layouts(const Contender& contender) const {
    std::vector<std::vector<int>> known;
    for (const Contender& other : contenders_) {
      if (other.variant.workload == contender.variant.workload &&
          other.found.layout.units.size() == static_cast<size_t>(contender.variant.stages()))
        known.push_back(other.found.layout.units);
    }
    return known;
  }

  LayoutScorer& open(Contender& contender) const {
    if (!contender.scorer) {
      contender.scorer = std::make_unique<LayoutScorer>(sums(contender.variant), request_.machine,
                                                        contender.variant.take_actions(), request_.recompute);
    }
    return *contender.scorer;
  }

  // Graphs that are too large to be all kept are left with what was found.
  static void finish_large(Contender& contender) {
    if (contender.scorer->forecast().actions() <= kept_actions) return;
    contender.step.prediction = predict_by_graph(*contender.scorer, contender.found.layout);
    contender.scorer.reset();
  }

  void search_one(Contender& contender, const SearchBudget& budget) const {
    LayoutScorer& scorer = open(contender);
    if (request_.cut == CutBy::measured) {
      std::vector<std::vector<int>> seeds = cuts(contender);
      for (std::vector<int>& known : known_layouts(contender)) seeds.push_back(std::move(known));
      contender.found = search_layout(scorer, seeds, budget);
      return;
    }
    contender.found.layout.units =
        request_.cut == CutBy::listed
            ? request_.listed
            : cut_evenly(cut_weights(scorer.sums().model(), request_.cut), scorer.schedule().blocks());
    contender.found.score = scorer.score(contender.found.layout);
    improve_recompute(scorer, contender.found);
  }

  void sort_contenders() {
    std::stable_sort(contenders_.begin(), contenders_.end(), [](const Contender& a, const Contender& b) {
      return std::pair(a.found.score.overflow, a.found.score.step) <
             std::pair(b.found.score.overflow, b.found.score.step);
    });
  }

  void search() {
    SearchBudget budget = request_.budget;
    const auto count = static_cast<double>(contenders_.size());
    budget.actions *= first_look / count;
    budget.partial_layouts *= first_look / count;
    for (Contender& contender : contenders_) {
      search_one(contender, budget);
      finish_large(contender);
    }
    sort_contenders();
    budget = request_.budget;
    const size_t last = std::min(finalists, contenders_.size());
    budget.actions *= (1 - first_look) / static_cast<double>(last);
    budget.partial_layouts *= (1 - first_look) / static_cast<double>(last);
    for (size_t i = 0; i < last; ++i) {
      // A large one had its look.
      if (!contenders_[i].found.proved && contenders_[i].scorer) search_one(contenders_[i], budget);
    }
    sort_contenders();
  }

  bool simulates(const Contender& contender) const {
    return contender.scorer->forecast().actions() <= simulated_actions;
  }

  SimulatedStep predict(Contender& contender, const Layout& layout) const {
    if (simulates(contender)) return predict_by_program(*contender.scorer, layout);
    SimulatedStep step;
    step.prediction = predict_by_graph(*contender.scorer, layout);
    step.costs =
        layout_costs(contender.scorer->sums(), request_.machine, contender.scorer->schedule(), layout);
    step.options.reduce_gradients = request_.machine.replicas > 1;
    step.options.tied_embeddings = contender.scorer->sums().model().tied_embeddings;
    return step;
  }

  static bool better(const Prediction& a, const Prediction& b) {
    return a.fits != b.fits ? a.fits : a.step < b.step * (1 - 1e-12);
  }

  // Where the program takes more buffers than were assumed, and they do not fit, the search is repeated with
  // what it took.
  void fit_buffers(Contender& contender, SimulatedStep& step) const {
    for (int round = 0; round < buffer_rounds && !step.prediction.fits && simulates(contender); ++round) {
      if (contender.found.score.overflow > 0) return;
      std::vector<BoundaryBuffers> buffers = contender.scorer->buffers();
      for (size_t r = 0; r < buffers.size(); ++r) {
        for (size_t pool = 0; pool < buffers[r].size(); ++pool)
          buffers[r][pool] = std::max(buffers[r][pool], step.buffers[r][pool]);
      }
      contender.scorer->set_buffers(std::move(buffers));
      SearchBudget budget = request_.budget;
      budget.actions *= first_look / finalists;
      search_one(contender, budget);
      step = predict(contender, contender.found.layout);
    }
  }

  struct Winner {
    Contender* contender = nullptr;
    std::vector<OtherCut> cuts;
  };

  // The best as the real programs have it; the graphs' best are simulated first.
  Winner settle_winner() {
    Winner winner;
    size_t actions = 0;
    for (Contender& contender : contenders_) {
      if (!contender.scorer) {  // a large one
        if (winner.contender == nullptr) winner.contender = &contender;
        continue;
      }
      actions += contender.scorer->forecast().actions();
      if (winner.contender != nullptr && actions > simulated_actions) {
        contender.step.prediction = predict_by_graph(*contender.scorer, contender.found.layout);
        continue;
      }
      contender.step = predict(contender, contender.found.layout);
      fit_buffers(contender, contender.step);
      if (winner.contender == nullptr || better(contender.step.prediction, winner.contender->step.prediction))
        winner.contender = &contender;
    }
    if (!winner.contender->scorer) {
      open(*winner.contender);
      winner.contender->step = predict(*winner.contender, winner.contender->found.layout);
    }
    for (const CutBy cut : model_cuts) add_cut(winner, cut);
    return winner;
  }

  void add_cut(Winner& winner, CutBy cut) const {
    Contender& contender = *winner.contender;
    LayoutScorer& scorer = *contender.scorer;
    SearchResult other;
    other.layout.units = cut_evenly(cut_weights(scorer.sums().model(), cut), scorer.schedule().blocks());
    other.score = scorer.score(other.layout);
    SimulatedStep step = predict(contender, other.layout);
    winner.cuts.push_back({cut, other.layout, step.prediction});
    if (request_.cut != CutBy::measured || !better(step.prediction, contender.step.prediction)) return;
    contender.found = {other.layout, other.score, false};
    contender.step = std::move(step);
  }

  bool messages_only_delay() const {
    return std::all_of(request_.machine.links.edges.begin(), request_.machine.links.edges.end(),
                       [](const Edge& edge) { return std::isinf(edge.bandwidth); });
  }

  Candidate candidate(const Contender& contender) const {
    Candidate made;
    made.schedule = contender.variant.schedule;
    made.chunks = contender.variant.chunks;
    made.slack = contender.variant.slack;
    made.workload = contender.variant.workload;
    made.layout = contender.found.layout;
    made.prediction = contender.step.prediction;
    made.proved = contender.found.proved && request_.cut == CutBy::measured && messages_only_delay();
    return made;
  }

  Plan finish(Winner winner) {
    Plan plan;
    Contender& best = *winner.contender;
    plan.chosen = candidate(best);
    plan.micro_batches = request_.workloads[best.variant.workload].micro_batches;
    plan.schedule = best.scorer->schedule();
    plan.costs = std::move(best.step.costs);
    plan.lowering = best.step.options;
    plan.stages = stage_plans(*best.scorer, best.found.layout);
    plan.parts = step_parts(*best.scorer, best.found.layout, plan.chosen.prediction);
    plan.cuts = std::move(winner.cuts);
    plan.schedules.push_back(plan.chosen);
    for (const Contender& contender : contenders_) {
      if (&contender != &best) plan.schedules.push_back(candidate(contender));
    }
    std::stable_sort(
        plan.schedules.begin(), plan.schedules.end(),
        [](const Candidate& a, const Candidate& b) { return better(a.prediction, b.prediction); });
    for (const Variant& variant : refused_) {
      Candidate refused;
      refused.schedule = variant.schedule;
      refused.chunks = variant.chunks;
      refused.slack = variant.slack;
      refused.workload = variant.workload;
      refused.refusal = variant.refusal;
      plan.schedules.push_back(std::move(refused));
    }
    return plan;
  }

  const PlanRequest& request_;
  std::list<UnitSums> sums_;
  std::vector<Contender> contenders_;
  std::vector<Variant> refused_;
};

}  // namespace

const char* to_string(CutBy cut) {
  switch (cut) {
    case CutBy::measured:
      return "measured";
    case CutBy::parameters:
      return "parameters";
    case CutBy::flops:
      return "flops";
    case CutBy::layers:
      return "layers";
    case CutBy::listed:
      return "listed";
  }
  return "?";
}

std::vector<double> cut_weights(const ModelCosts& model, CutBy cut) {
  std::vector<double> weights;
  for (const UnitCosts& unit : model.units)
    weights.push_back(cut == CutBy::layers  ? unit.layers
                      : cut == CutBy::flops ? unit.flops
                                            : unit.parameters);
  return weights;
}

Plan make_plan(const PlanRequest& request) {
  return Planner(request).run();
}

}  // namespace penstock::planner
