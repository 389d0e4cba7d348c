#include "model/flops.h"

namespace penstock::model {

int64_t matmul_parameters(const ModelSection& model) {
  const int64_t attended = model.heads * model.head_dim;
  const int64_t attention = (2 * attended + 2 * model.kv_heads * model.head_dim) * model.hidden_size;
  const int64_t matrices = model.family == Family::gpt2 ? 2 : 3;
  const int64_t mlp = matrices * model.hidden_size * model.ffn_hidden_size;
  return model.layers * (attention + mlp) + model.vocab_size * model.hidden_size;
}

double training_flops_per_token(const ModelSection& model) {
  const auto attention = static_cast<double>(model.layers * model.heads * model.head_dim) *
                         static_cast<double>(model.sequence_length + 1);
  return 6.0 * static_cast<double>(matmul_parameters(model)) + 6.0 * attention;
}

}  // namespace penstock::model
