#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/tokenizer.h"
#include "trainer/generated_text.h"
#include "trainer/generation.h"
#include "trainer/inference.h"

namespace penstock::commands {

/// Texts as they grow. They are printed in their order: the first that has not ended as it grows, those
/// behind it once it is their turn.
class GeneratedTexts {
 public:
  /// `texts` of each prompt; all outlive it. `prints`: to standard output.
  GeneratedTexts(const data::Tokenizer& tokenizer, const std::vector<std::string>& prompts, int64_t texts,
                 const std::vector<std::string>& stops, int64_t most_tokens, bool prints);

  /// The next token of a text; whether the text ends with it.
  bool add(size_t text, int32_t token);
  /// Of every text its prompt, text, tokens, and why it ended.
  nlohmann::ordered_json json() const;

 private:
  struct Text {
    GeneratedText text;
    std::vector<int32_t> tokens;
    const char* ended = nullptr;
  };
  void begin(size_t text) const;
  void print();

  const data::Tokenizer& tokenizer_;
  const std::vector<std::string>& prompts_;
  size_t of_each_;
  int64_t most_tokens_;
  bool prints_;
  std::vector<Text> texts_;
  size_t printed_ = 0;  ///< texts that are printed to their end
};

/// Of memory that decoding reads: the weights of every step's products, and the keys and values of every
/// token.
double bytes_read(const Job& job, const GenerationFigures& figures);
/// Tokens a second, and what of the rate at which memory is read decoding takes.
nlohmann::ordered_json timings(const LoadedModel& model, const GenerationFigures& figures);
/// The same as a line.
std::string timings_line(const nlohmann::ordered_json& timings);

}  // namespace penstock::commands
