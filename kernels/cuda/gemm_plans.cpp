#include "kernels/cuda/gemm_plans.h"

#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

using Json = nlohmann::ordered_json;

/// One list of a shape's and a plan's fields for reading and writing: visit(key, field).
template <class Shape, class Visit>
void each_shape_field(Shape& shape, const Visit& visit) {
  visit("rows", shape.rows);
  visit("columns", shape.columns);
  visit("depth", shape.depth);
  visit("in", shape.in);
  visit("out", shape.out);
  visit("a_transposed", shape.a_transposed);
  visit("b_transposed", shape.b_transposed);
  visit("bias", shape.bias);
  visit("accumulate", shape.accumulate);
  visit("tf32", shape.tf32);
}
template <class Plan, class Visit>
void each_plan_field(Plan& plan, const Visit& visit) {
  visit("algorithm", plan.algorithm);
  visit("workspace_bytes", plan.workspace_bytes);
  visit("bias_in_epilogue", plan.bias_in_epilogue);
  visit("id", plan.id);
  visit("tile", plan.tile);
  visit("stages", plan.stages);
  visit("split_k", plan.split_k);
  visit("reduction", plan.reduction);
  visit("swizzle", plan.swizzle);
  visit("custom", plan.custom);
  visit("inner_shape", plan.inner_shape);
  visit("cluster", plan.cluster);
  visit("seconds", plan.seconds);
}

template <class T>
Json written(const T& value) {
  return value;
}
Json written(DType value) {
  return name_of(value);
}
/// 16 hexadecimal digits a word.
Json written(const std::array<uint64_t, 8>& words) {
  std::string text;
  for (const uint64_t word : words) text += fmt::format("{:016x}", word);
  return text;
}

template <class T>
void read(const Json& value, T& into) {
  value.get_to(into);
}
void read(const Json& value, DType& into) {
  const auto name = value.get<std::string>();
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name == name_of(dtype)) {
      into = dtype;
      return;
    }
  }
  throw DeviceError(fmt::format("type \"{}\"; expected fp32, bf16 or fp16", name));
}
void read(const Json& value, std::array<uint64_t, 8>& into) {
  const auto text = value.get<std::string>();
  if (text.size() != 128 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw DeviceError(fmt::format("algorithm \"{}\"; expected 128 hexadecimal digits", text));
  }
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
}

constexpr const char* error_key = "error";

}  // namespace

std::string to_string(const GemmShape& shape) {
  const auto& [M, N, K, in, out, a_transposed, b_transposed, bias, accumulate, tf32] = shape;
  const auto operand = [](int64_t rows, int64_t columns, bool transposed) {
    return transposed ? fmt::format("({}, {})ᵀ", columns, rows) : fmt::format("({}, {})", rows, columns);
  };
  return fmt::format("{} ({}, {}) {} {} {} · {}{}", name_of(out), M, N, accumulate ? "+=" : "=",
                     tf32 ? "tf32" : name_of(in), operand(M, K, a_transposed), operand(K, N, b_transposed),
                     bias ? " + bias" : "");
}

std::string to_string(const GemmPlan& plan) {
  std::string text = fmt::format("algorithm {}, tile {}, stages {}, cluster {}, {} bytes of workspace",
                                 plan.id, plan.tile, plan.stages, plan.cluster, plan.workspace_bytes);
  if (!plan.bias_in_epilogue) text += ", bias by a kernel of its own";
  if (plan.seconds > 0) text += fmt::format(", {:.3g} ms", plan.seconds * 1e3);
  return text;
}

std::string to_string(const GemmOrigin& origin) {
  return fmt::format("cuBLASLt {} (driver {}) on {}", origin.library_version, origin.driver_version,
                     origin.device);
}

const GemmPlan* GemmPlans::find(const GemmShape& shape) const {
  const auto at = table_.find(shape);
  return at == table_.end() ? nullptr : &at->second;
}

std::string GemmPlans::adopt(const GemmPlans& stored) {
  if (stored.origin_ != origin_) {
    return fmt::format("the stored plans of matrix products are of {}, here is {}; new ones are chosen",
                       to_string(stored.origin_), to_string(origin_));
  }
  if (sealed_) throw UsageError("plans of matrix products must be adopted before the ranks agree on them");
  table_ = stored.table_;
  return {};
}

std::string GemmPlans::to_json() const {
  Json products = Json::array();
  for (const auto& [shape, plan] : table_) {
    Json row = Json::object();
    const auto write = [&](const char* key, const auto& value) { row[key] = written(value); };
    each_shape_field(shape, write);
    each_plan_field(plan, write);
    products.push_back(std::move(row));
  }
  return Json{{"cublaslt", origin_.library_version},
              {"driver", origin_.driver_version},
              {"device", origin_.device},
              {"products", products}}
      .dump();
}

GemmPlans GemmPlans::from_json(std::string_view text) {
  std::string place = "their head";
  try {
    const Json json = Json::parse(text);
    GemmPlans plans({json.at("cublaslt").get<uint64_t>(), json.at("driver").get<uint64_t>(),
                     json.at("device").get<std::string>()});
    size_t number = 0;
    for (const Json& row : json.at("products")) {
      place = fmt::format("product {}", number++);
      std::pair<GemmShape, GemmPlan> entry;
      const auto take = [&](const char* key, auto& field) { read(row.at(key), field); };
      each_shape_field(entry.first, take);
      each_plan_field(entry.second, take);
      plans.table_.insert(entry);
    }
    return plans;
  } catch (const std::exception& error) {
    throw DeviceError(fmt::format("plans of matrix products: {}: {}", place, error.what()));
  }
}

void agree_on_plans(GemmPlans& plans, bool is_rank_0, const std::function<void()>& plan_everything,
                    const BroadcastText& broadcast) {
  std::exception_ptr failure;
  std::string text;
  if (is_rank_0) {
    try {
      plan_everything();
      text = plans.to_json();
    } catch (const std::exception& error) {
      failure = std::current_exception();
      text = Json{{error_key, error.what()}}.dump();
    }
  }
  broadcast(text);  // also when rank 0 failed: the others wait for it
  if (failure) std::rethrow_exception(failure);
  if (!is_rank_0) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_object() && json.contains(error_key)) {
      throw DeviceError("rank 0 could not plan the matrix products: " + json[error_key].get<std::string>());
    }
    const GemmPlans of_rank_0 = GemmPlans::from_json(text);
    if (of_rank_0.origin() != plans.origin()) {
      throw DeviceError(
          fmt::format("matrix products are planned once for all ranks, which needs equal devices and "
                      "libraries: rank 0 has "
                      "{}, this rank {}",
                      to_string(of_rank_0.origin()), to_string(plans.origin())));
    }
    plans.replace(of_rank_0);
  }
  plans.seal();
}

}  // namespace penstock::cuda
