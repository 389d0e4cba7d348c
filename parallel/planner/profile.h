#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parallel/planner/unit_costs.h"

namespace penstock::planner {

/// The version of the file format that is written, and the only one that is read.
inline constexpr int profile_schema = 1;

/// A profile that cannot be read or used: names file and JSON pointer, what was found, what was expected.
class ProfileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A repeated measurement, in seconds.
struct Timing {
  double median = 0;
  double spread = 0;  ///< distance of the quartiles
  int64_t samples = 1;

  friend bool operator==(const Timing&, const Timing&) = default;
};

/// A unit under one recompute mode at one micro-batch size; the members are ModeCosts'.
struct MeasuredMode {
  Recompute mode = Recompute::none;
  Timing forward;
  Timing recompute;
  Timing backward_input;
  Timing backward_weight;
  int64_t forward_bytes = 0;
  int64_t kept_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t transient_bytes = 0;

  friend bool operator==(const MeasuredMode&, const MeasuredMode&) = default;
};

struct MeasuredSize {
  int64_t micro_batch = 1;      ///< sequences
  int64_t workspace_bytes = 0;  ///< and the next: as in UnitCosts
  int64_t side_band_bytes = 0;
  std::vector<MeasuredMode>
      modes;  ///< at least one, the same of all layers; others are not available to plans

  friend bool operator==(const MeasuredSize&, const MeasuredSize&) = default;
};

/// A kind of unit: one measurement stands for all layers of a kind, unless another entry lists some by name.
struct MeasuredUnit {
  std::string kind;  ///< "embedding", "attention", "mlp", "head"
  /// Empty: every unit of the kind that no other entry names. Else these: {"attention_5", "attention_11"}.
  std::vector<std::string> only;
  int64_t parameters = 0;      ///< of one unit
  double flops = 0;            ///< forward of one sequence, by formula
  int64_t resident_bytes = 0;  ///< of one unit; the rest as in UnitCosts
  int64_t gradient_bytes = 0;
  Timing optimizer_step;
  std::vector<MeasuredSize> sizes;  ///< at least one, ascending

  friend bool operator==(const MeasuredUnit&, const MeasuredUnit&) = default;
};

/// A directed edge between two pipeline ranks while messages pass in both directions.
struct MeasuredLink {
  int64_t from = -1;  ///< rank; −1 with to = −1: any edge that is not listed
  int64_t to = -1;
  double latency = 0;               ///< seconds
  std::optional<double> bandwidth;  ///< bytes a second; nothing (null in the file): no limit
  /// The same with nothing in the other direction; 0: not measured.
  double bandwidth_alone = 0;

  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

/// What a model costs per micro-batch size beside its units; ModelCosts' members.
struct MeasuredShape {
  int64_t micro_batch = 1;
  int64_t boundary_bytes = 0;
  int64_t rank_bytes = 0;

  friend bool operator==(const MeasuredShape&, const MeasuredShape&) = default;
};

/// A key of the job's [model] section, resolved; "rope_scaling.type" for one of a table.
struct ModelKey {
  std::string key;
  std::variant<bool, int64_t, double, std::string> value;

  friend bool operator==(const ModelKey&, const ModelKey&) = default;
};

/// What `profile` measured: a versioned file.
struct Profile {
  std::string device;  ///< for people: "Intel Xeon … (2 of 16 cores)", "NVIDIA H200"
  /// Name and version of everything that changes what is measured: build, compiler, oneDNN, CUDA, driver, …
  std::vector<std::pair<std::string, std::string>> versions;
  int64_t threads = 1;  ///< CPU compute threads a rank
  /// Compute threads a processor while it was measured, on the most crowded host; 0: not known. Above 1
  /// units, and links above all, show a machine whose ranks took each other's turns.
  double threads_per_processor = 0;
  std::string compute;  ///< "fp32", "bf16"
  std::vector<ModelKey> model;
  bool tied_embeddings = false;
  int64_t tied_exchange_bytes = 0;
  int64_t tied_shared_bytes = 0;
  std::vector<MeasuredShape> shapes;  ///< at least one, ascending
  std::vector<MeasuredUnit> units;
  std::vector<MeasuredLink> links;  ///< empty: not measured, transfers cost nothing
  /// Gradients over replicas: latency in seconds, bytes a second; nothing: not measured.
  std::optional<MeasuredLink> reduction;
  double traffic_slowdown = 0;  ///< as in LinkCosts
  /// By rank: its compute takes that many times as long as `units` say. Empty: all alike.
  std::vector<double> pace;

  bool oversubscribed() const { return threads_per_processor > 1; }

  /// The value of an integer key of `model`; ProfileError where it is missing or is none.
  int64_t model_integer(const std::string& key, const std::string& place = "profile") const;

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// The file's text, and back. `place` names the text in errors: a path. Everything is validated: numbers in
/// their ranges (docs/profile.md), sizes ascending, every kind measured, names that exist.
std::string write_profile(const Profile& profile);
Profile read_profile(const std::string& text, const std::string& place);
Profile read_profile_file(const std::string& path);
/// The text of a profile's file, unread. ProfileError where there is none, or a folder.
std::string profile_text(const std::string& path);
/// Throws ProfileError for what read_profile would refuse.
void validate(const Profile& profile, const std::string& place);

/// The costs at a micro-batch size: as measured, or linear between two measured sizes, or, beyond them, along
/// the line through the two nearest (through the origin, with one size), up to twice the largest and down to
/// half the smallest; ProfileError beyond that.
ModelCosts model_costs(const Profile& profile, int64_t micro_batch);

/// Links of a pipeline of `ranks`. An edge that is not listed takes what stands for any edge, or the slowest
/// latency and bandwidth that were measured.
LinkCosts link_costs(const Profile& profile, int ranks);

/// Paces of `ranks`, for Machine::pace; ranks beyond those of the profile take 1.
std::vector<double> rank_paces(const Profile& profile, int ranks);

}  // namespace penstock::planner
