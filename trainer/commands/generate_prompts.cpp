#include "trainer/commands/generate_prompts.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/document_reader.h"
#include "data/encoder.h"

namespace penstock::commands {

std::vector<std::string> read_prompts(const std::string& file, transport::World& world) {
  nlohmann::json prompts = nlohmann::json::array();
  if (world.rank() == 0) {
    data::DocumentReader reader(file, data::DocumentSeparator::line);
    std::string prompt;
    while (const std::optional<data::DocumentPiece> piece = reader.next()) {
      prompt += piece->text;
      if (!piece->ends_document) continue;
      prompts.push_back(std::exchange(prompt, {}));
    }
    if (!prompt.empty()) prompts.push_back(prompt);
    if (prompts.empty()) {
      throw data::DataError(data::Fault{file, std::nullopt, "no prompt", "a prompt a line",
                                        "write one, or leave --prompts-file out"});
    }
  }
  // JSON has no bytes that are not UTF-8: such become U+FFFD.
  const std::string bytes = prompts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(world.broadcast(bytes, 0)).get<std::vector<std::string>>();
}

std::vector<std::vector<int32_t>> encode_prompts(const std::vector<std::string>& prompts,
                                                 const data::Tokenizer& tokenizer) {
  data::Encoder encoder(tokenizer);
  std::vector<std::vector<int32_t>> encoded;
  for (const std::string& prompt : prompts) {
    std::vector<int32_t>& tokens = encoded.emplace_back(encoder.encode(prompt));
    if (const auto begin = tokenizer.begin_of_text()) tokens.insert(tokens.begin(), *begin);
    if (tokens.empty()) tokens.push_back(tokenizer.end_of_text().value_or(0));
  }
  return encoded;
}

std::vector<GenerationRequest> requests_of(const std::vector<std::vector<int32_t>>& prompts, int64_t texts) {
  std::vector<GenerationRequest> requests;
  for (const std::vector<int32_t>& tokens : prompts) {
    for (int64_t text = 0; text < texts; ++text) requests.push_back({tokens, requests.size()});
  }
  return requests;
}

}  // namespace penstock::commands
