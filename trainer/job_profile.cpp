#include "trainer/job_profile.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trainer/job/job_keys.h"
#include "trainer/version/version.h"

namespace penstock {
namespace {

using planner::ModelKey;
using planner::Profile;

// Other values change no time and no byte.
constexpr std::array<std::string_view, 3> kWithoutCost{"init_std", "norm_epsilon", "rope_theta"};
constexpr std::string_view kRopeScaling = "rope_scaling";

void add_keys(const std::string& name, const TomlNode& value, std::vector<ModelKey>& keys) {
  switch (value.kind) {
    case TomlNode::Kind::boolean:
      keys.push_back({name, value.boolean});
      break;
    case TomlNode::Kind::integer:
      keys.push_back({name, value.integer});
      break;
    case TomlNode::Kind::number:
      keys.push_back({name, value.number});
      break;
    case TomlNode::Kind::text:
      keys.push_back({name, value.text});
      break;
    case TomlNode::Kind::table:
      for (const TomlNode::Entry& entry : value.table) add_keys(name + "." + entry.key, entry.value, keys);
      break;
    case TomlNode::Kind::none:
    case TomlNode::Kind::date:
    case TomlNode::Kind::list:
      break;  // absent; [model] has no key of the other kinds
  }
}

std::string text_of(const ModelKey& key) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, key.value);
}

bool costs_the_same(const ModelKey& a, const ModelKey& b) {
  if (a.key == "dropout") {
    // Any probability but 0 costs the same; JSON may have made 0.0 an integer.
    return (text_of(a) == "0") == (text_of(b) == "0");
  }
  return a.value == b.value || text_of(a) == text_of(b);
}

bool matters(const ModelKey& key) {
  const std::string_view name = key.key;
  return std::find(kWithoutCost.begin(), kWithoutCost.end(), name) == kWithoutCost.end() &&
         name.substr(0, kRopeScaling.size()) != kRopeScaling;
}

const ModelKey* find(const std::vector<ModelKey>& keys, const std::string& name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const ModelKey& key) { return key.key == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string difference(std::string_view what, std::string_view profiled, std::string_view asked) {
  return fmt::format("\n  {}: {} was profiled, the job has {}", what, profiled, asked);
}

}  // namespace

std::vector<ModelKey> model_keys(const Job& job) {
  Job copy = job;
  const std::vector<SectionKeys> sections = keys_of(copy);
  std::vector<ModelKey> keys;
  for (const Key& key : find_section(sections, "model")->keys) add_keys(key.name, key.value(), keys);
  keys.push_back({"document_mask", job.data.document_mask});
  return keys;
}

runtime::ProfileRequest profile_request(const Job& job, std::vector<int64_t> micro_batches,
                                        std::vector<planner::Recompute> modes) {
  const runtime::PipelineRequest pipeline = pipeline_request(job);
  runtime::ProfileRequest request;
  request.common = pipeline.common;
  request.topology = runtime::Topology(static_cast<int>(job.parallel.pipeline),
                                       static_cast<int>(job.parallel.data), job.parallel.order);
  request.reduction = reduction_of(pipeline);
  request.micro_batches = std::move(micro_batches);
  request.modes = std::move(modes);
  return request;
}

std::vector<int64_t> usual_micro_batches(const Job& job) {
  const int64_t sequences = job.batch.micro * job.micro_batches();
  std::vector<int64_t> sizes;
  if (job.batch.micro % 2 == 0 && sequences % (job.batch.micro / 2) == 0)
    sizes.push_back(job.batch.micro / 2);
  sizes.push_back(job.batch.micro);
  if (sequences % (2 * job.batch.micro) == 0) sizes.push_back(2 * job.batch.micro);
  return sizes;
}

void describe(Profile& profile, const Job& job) {
  const BuildInfo& build = build_info();
  profile.versions = {{"penstock", build.version},
                      {"git", build.git_id},
                      {"compiler", build.compiler},
                      {"build_type", build.build_type},
                      {"cpu_target", build.cpu_target}};
  profile.versions.insert(profile.versions.end(), build.libraries.begin(), build.libraries.end());
  profile.model = model_keys(job);
}

std::string misfit(const Profile& profile, const Job& job) {
  std::string text;
  const std::vector<ModelKey> keys = model_keys(job);
  for (const ModelKey& key : keys) {
    const ModelKey* profiled = find(profile.model, key.key);
    if (!matters(key) || (profiled != nullptr && costs_the_same(*profiled, key))) continue;
    text += difference(key.key == "document_mask" ? "data.document_mask" : "model." + key.key,
                       profiled != nullptr ? text_of(*profiled) : "nothing", text_of(key));
  }
  for (const ModelKey& profiled : profile.model) {
    if (matters(profiled) && find(keys, profiled.key) == nullptr)
      text += difference("model." + profiled.key, text_of(profiled), "nothing");
  }
  const std::string_view compute = name_of(model::compute_dtype(job.precision.compute));
  if (profile.compute != compute) text += difference("precision.compute", profile.compute, compute);
  return text;
}

std::string misfit(const Profile& profile, const Job& job, const Device& device) {
  std::string text = misfit(profile, job);
  if (profile.threads != job.parallel.threads)
    text +=
        difference("parallel.threads", std::to_string(profile.threads), std::to_string(job.parallel.threads));
  const std::string here = device.description();
  if (profile.device != here) text += difference("device", profile.device, here);
  return text;
}

}  // namespace penstock
