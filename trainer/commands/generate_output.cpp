#include "trainer/commands/generate_output.h"

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "kernels/cpu/read_rate.h"
#include "model/flops.h"
#include "model/rank_config.h"

namespace penstock::commands {

namespace {

void write(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

double rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

GeneratedTexts::GeneratedTexts(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                               int64_t texts, const std::vector<std::string>& stops, int64_t most_tokens,
                               bool prints)
    : tokenizer_(tokenizer),
      prompts_(prompts),
      of_each_(static_cast<size_t>(texts)),
      most_tokens_(most_tokens),
      prints_(prints) {
  for (size_t text = 0; text < prompts.size() * of_each_; ++text)
    texts_.push_back({GeneratedText(tokenizer, stops), {}, nullptr});
  begin(0);
}

void GeneratedTexts::begin(size_t text) const {
  if (!prints_ || text >= texts_.size()) return;
  if (text > 0) write("\n----\n");
  write(prompts_[text / of_each_]);
}

bool GeneratedTexts::add(size_t text, int32_t token) {
  Text& at = texts_[text];
  at.tokens.push_back(token);
  if (token == tokenizer_.end_of_text().value_or(-1)) {
    at.ended = "end_of_text";
  } else if (at.text.add(token)) {
    at.ended = "stop";
  } else if (static_cast<int64_t>(at.tokens.size()) == most_tokens_) {
    at.ended = "length";
  }
  if (prints_ && text == printed_) print();
  return at.ended != nullptr;
}

void GeneratedTexts::print() {
  while (printed_ < texts_.size()) {
    Text& at = texts_[printed_];
    write(at.ended != nullptr ? at.text.take_rest() : at.text.take());
    if (at.ended == nullptr) return;
    begin(++printed_);
  }
  write("\n");
}

nlohmann::ordered_json GeneratedTexts::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t text = 0; text < texts_.size(); ++text) {
    list.push_back({{"prompt", prompts_[text / of_each_]},
                    {"text", texts_[text].text.bytes()},
                    {"tokens", texts_[text].tokens},
                    {"ended", texts_[text].ended == nullptr ? "" : texts_[text].ended}});
  }
  return list;
}

double bytes_read(const Job& job, const GenerationFigures& figures) {
  const ModelSection& model = job.model;
  const auto element = static_cast<double>(size_of(model::compute_dtype(job.precision.compute)));
  const auto weights = static_cast<double>(model::matmul_parameters(model));
  const auto kept = static_cast<double>(2 * model.layers * model.kv_heads * model.head_dim);
  return element *
         (weights * static_cast<double>(figures.steps) + kept * static_cast<double>(figures.kept_tokens));
}

nlohmann::ordered_json timings(const LoadedModel& model, const GenerationFigures& figures) {
  nlohmann::ordered_json json{{"read_tokens", figures.read_tokens},
                              {"read_seconds", figures.read_seconds},
                              {"read_tokens_per_second", rate(figures.read_tokens, figures.read_seconds)},
                              {"made_tokens", figures.made_tokens},
                              {"made_seconds", figures.made_seconds},
                              {"made_tokens_per_second", rate(figures.made_tokens, figures.made_seconds)},
                              {"steps", figures.steps}};
  const double bytes = bytes_read(model.job, figures);
  json["bytes_per_second"] = figures.made_seconds > 0 ? bytes / figures.made_seconds : 0;
  if (model.backend.device->kind() != DeviceKind::cpu || figures.steps == 0) return json;
  const double bound = cpu::measure_read_rate(static_cast<int>(model.job.parallel.threads));
  json["memory_bytes_per_second"] = bound;
  json["share_of_memory"] = bytes / figures.made_seconds / bound;
  return json;
}

std::string timings_line(const nlohmann::ordered_json& timings) {
  std::string line =
      fmt::format("read {} tokens at {:.0f}/s, made {} at {:.1f}/s", timings["read_tokens"].get<int64_t>(),
                  timings["read_tokens_per_second"].get<double>(), timings["made_tokens"].get<int64_t>(),
                  timings["made_tokens_per_second"].get<double>());
  if (!timings.contains("share_of_memory")) return line;
  return line + fmt::format(" ({:.1f} GB/s, {:.0f} % of the rate at which memory is read)",
                            timings["bytes_per_second"].get<double>() / 1e9,
                            100 * timings["share_of_memory"].get<double>());
}

}  // namespace penstock::commands
