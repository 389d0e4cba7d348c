#include "trainer/job/foreign_names.h"

#include <cctype>

namespace penstock {
namespace {

constexpr const char* kMegatron = "Megatron-LM";
constexpr const char* kDeepSpeed = "DeepSpeed";
constexpr const char* kTitan = "torchtitan";
constexpr const char* kNanotron = "nanotron";
constexpr const char* kLlmC = "llm.c";
constexpr const char* kNanoGpt = "nanoGPT";
constexpr const char* kHuggingFace = "Hugging Face";
constexpr const char* kNoTensor =
    "there is no tensor parallelism; use `parallel.pipeline` and `parallel.data`";
constexpr const char* kNoMicroBatchCount =
    "the number of micro-batches follows from `batch.global` / (`batch.micro` · `parallel.data`)";

constexpr ForeignName kKeys[] = {
    // Megatron-LM
    {"pipeline_model_parallel_size", kMegatron, "`parallel.pipeline`"},
    {"tensor_model_parallel_size", kMegatron, kNoTensor},
    {"context_parallel_size", kMegatron, "there is no context parallelism"},
    {"expert_model_parallel_size", kMegatron, "there are no experts"},
    {"num_experts", kMegatron, "there are no experts"},
    {"sequence_parallel", kMegatron, kNoTensor},
    {"num_layers_per_virtual_pipeline_stage", kMegatron,
     "`parallel.chunks` (chunks a rank, not layers a chunk)"},
    {"num_virtual_stages_per_pipeline_rank", kMegatron, "`parallel.chunks`"},
    {"virtual_pipeline_model_parallel_size", kMegatron, "`parallel.chunks`"},
    {"decoder_first_pipeline_num_layers", kMegatron, "`parallel.partition` (a list of unit counts)"},
    {"decoder_last_pipeline_num_layers", kMegatron, "`parallel.partition` (a list of unit counts)"},
    {"pipeline_model_parallel_layout", kMegatron, "`parallel.partition` (a list of unit counts)"},
    {"overlap_p2p_communication", kMegatron, "transfers always overlap compute; there is no key"},
    {"overlap_grad_reduce", kMegatron,
     "the reduction always overlaps compute; `parallel.bucket_mib` sizes its buckets"},
    {"use_distributed_optimizer", kMegatron, "`parallel.sharded_optimizer`"},
    {"num_layers", kMegatron, "`model.layers`"},
    {"num_attention_heads", kMegatron, "`model.heads`"},
    {"num_query_groups", kMegatron, "`model.kv_heads`"},
    {"group_query_attention", kMegatron, "`model.kv_heads` (below heads: grouped-query attention)"},
    {"kv_channels", kMegatron, "`model.head_dim`"},
    {"seq_length", kMegatron, "`model.sequence_length`"},
    {"encoder_seq_length", kMegatron, "`model.sequence_length`"},
    {"make_vocab_size_divisible_by", kMegatron, "`model.vocab_pad`"},
    {"padded_vocab_size", kMegatron,
     "`model.vocab_size`, which is padded to a multiple of `model.vocab_pad`"},
    {"untie_embeddings_and_output_weights", kMegatron, "`model.tie_embeddings` (the opposite)"},
    {"share_embeddings_and_output_weights", kMegatron, "`model.tie_embeddings`"},
    {"attention_dropout", kMegatron, "`model.dropout`"},
    {"hidden_dropout", kMegatron, "`model.dropout`"},
    {"layernorm_epsilon", kMegatron, "`model.norm_epsilon`"},
    {"norm_eps", kMegatron, "`model.norm_epsilon`"},
    {"rotary_base", kMegatron, "`model.rope_theta`"},
    {"use_rope_scaling", kMegatron, "`model.rope_scaling` = {type = \"llama3\", …}"},
    {"rope_scaling_factor", kMegatron, "`model.rope_scaling` = {factor = …}"},
    {"init_method_std", kMegatron, "`model.init_std`"},
    {"add_qkv_bias", kMegatron, "`model.qkv_bias`"},
    {"qk_layernorm", kMegatron, "`model.qk_norm`"},
    {"swiglu", kMegatron, "`model.family` = \"llama\""},
    {"normalization", kMegatron, "`model.family` (gpt2: LayerNorm, llama: RMSNorm)"},
    {"position_embedding_type", kMegatron, "`model.family` (gpt2: learned, llama: rotary)"},
    {"train_iters", kMegatron, "`run.steps`"},
    {"train_samples", kMegatron, "`run.steps` (samples / batch.global)"},
    {"micro_batch_size", kMegatron, "`batch.micro`"},
    {"global_batch_size", kMegatron, "`batch.global`"},
    {"rampup_batch_size", kMegatron, "there is no batch ramp-up"},
    {"lr", kMegatron, "`learning_rate.max`"},
    {"min_lr", kMegatron, "`learning_rate.min`"},
    {"lr_decay_style", kMegatron, "`learning_rate.decay_style`"},
    {"lr_decay_iters", kMegatron, "`learning_rate.decay_steps`"},
    {"lr_warmup_iters", kMegatron, "`learning_rate.warmup_steps`"},
    {"lr_warmup_fraction", kMegatron, "`learning_rate.warmup_steps` (a count)"},
    {"lr_wsd_decay_iters", kMegatron, "`learning_rate.decay_steps` with decay_style = \"wsd\""},
    {"lr_wsd_decay_style", kMegatron, "`learning_rate.decay_style` (wsd decays linearly)"},
    {"adam_beta1", kMegatron, "`optimizer.beta1`"},
    {"adam_beta2", kMegatron, "`optimizer.beta2`"},
    {"adam_eps", kMegatron, "`optimizer.epsilon`"},
    {"clip_grad", kMegatron, "`optimizer.clip_norm`"},
    {"eval_interval", kMegatron, "`evaluation.every_steps`"},
    {"eval_iters", kMegatron, "`evaluation.batches`"},
    {"save", kMegatron, "`run.folder` and `run.name`: checkpoints lie in the run folder"},
    {"load", kMegatron, "`run.resume`"},
    {"save_interval", kMegatron, "`checkpoint.every_steps`"},
    {"log_interval", kMegatron, "`log.every_steps`"},
    {"tensorboard_dir", kMegatron, "`log.tensorboard` (true or false; the folder lies in the run folder)"},
    {"data_path", kMegatron, "`data.train`"},
    {"train_data_path", kMegatron, "`data.train`"},
    {"valid_data_path", kMegatron, "`data.validation`"},
    {"split", kMegatron, "`data.validation` (a file of its own)"},
    {"tokenizer_model", kMegatron, "`data.tokenizer`"},
    {"vocab_file", kMegatron, "`data.tokenizer` (a tokenizer.json)"},
    {"merge_file", kMegatron, "`data.tokenizer` (a tokenizer.json)"},
    {"reset_attention_mask", kMegatron, "`data.document_mask`"},
    {"reset_position_ids", kMegatron, "`data.document_mask`"},
    {"recompute_granularity", kMegatron, "`recompute.mode`"},
    {"recompute_method", kMegatron, "`recompute.mode`"},
    {"recompute_num_layers", kMegatron, "`recompute.mode`, or `recompute.stages` for a mode per stage"},
    {"recompute_activations", kMegatron, "`recompute.mode` = \"selective\""},
    {"exit_duration_in_mins", kMegatron, "`run.max_wall_time` = \"HH:MM:SS\""},
    {"distributed_backend", kMegatron, "`comm.transport`"},
    {"accumulate_allreduce_grads_in_fp32", kMegatron, "`precision.gradient_reduce` = \"fp32\" (the default)"},
    {"cuda_graph", kMegatron, "`cuda.graphs`"},
    {"initial_loss_scale", kMegatron, "`loss_scaling.initial`"},
    {"min_loss_scale", kMegatron, "`loss_scaling.minimum`"},
    {"loss_scale_window", kMegatron, "`loss_scaling.growth_interval`"},
    {"fp8_format", kMegatron, "`precision.compute` = \"fp8\""},
    // DeepSpeed
    {"train_batch_size", kDeepSpeed, "`batch.global`"},
    {"train_micro_batch_size_per_gpu", kDeepSpeed, "`batch.micro`"},
    {"gradient_accumulation_steps", kDeepSpeed, kNoMicroBatchCount},
    {"gradient_clipping", kDeepSpeed, "`optimizer.clip_norm`"},
    {"steps_per_print", kDeepSpeed, "`log.every_steps`"},
    {"zero_optimization", kDeepSpeed, "`parallel.sharded_optimizer` (stage 1)"},
    {"zero_optimization.stage", kDeepSpeed, "`parallel.sharded_optimizer` (stage 1)"},
    {"reduce_bucket_size", kDeepSpeed, "`parallel.bucket_mib`"},
    {"communication_data_type", kDeepSpeed, "`precision.gradient_reduce`"},
    {"activation_checkpointing", kDeepSpeed, "`recompute.mode`"},
    {"activation_checkpoint_interval", kDeepSpeed, "`recompute.mode`"},
    {"pipe_parallel_size", kDeepSpeed, "`parallel.pipeline`"},
    {"partition_method", kDeepSpeed, "`parallel.partition`"},
    {"pipeline.stages", kDeepSpeed, "`parallel.pipeline`"},
    {"pipeline.partition", kDeepSpeed, "`parallel.partition`"},
    {"fp16", kDeepSpeed, "`precision.compute` = \"fp16\""},
    {"initial_scale_power", kDeepSpeed, "`loss_scaling.initial`, the scale itself"},
    {"bf16", kDeepSpeed, "`precision.compute` = \"bf16\""},
    {"wall_clock_breakdown", kDeepSpeed, "times are always measured; see `metrics.jsonl`"},
    {"warmup_num_steps", kDeepSpeed, "`learning_rate.warmup_steps`"},
    {"warmup_max_lr", kDeepSpeed, "`learning_rate.max`"},
    {"total_num_steps", kDeepSpeed, "`run.steps`"},
    // torchtitan
    {"pipeline_parallel_degree", kTitan, "`parallel.pipeline`"},
    {"tensor_parallel_degree", kTitan, kNoTensor},
    {"context_parallel_degree", kTitan, "there is no context parallelism"},
    {"data_parallel_replicate_degree", kTitan, "`parallel.data`"},
    {"data_parallel_shard_degree", kTitan, "`parallel.data` with `parallel.sharded_optimizer`"},
    {"pipeline_parallel_schedule", kTitan, "`parallel.schedule`"},
    {"pipeline_parallel_schedule_csv", kTitan, "`parallel.schedule` = \"file:x.csv\""},
    {"pipeline_parallel_microbatch_size", kTitan, "`batch.micro`"},
    {"pipeline_parallel_microbatches", kTitan, kNoMicroBatchCount},
    {"pipeline_parallel_split_points", kTitan, "`parallel.partition` (a list of unit counts)"},
    {"pipeline_parallel_layers_per_stage", kTitan, "`parallel.partition` (a list of unit counts)"},
    {"local_batch_size", kTitan, "`batch.micro` · micro-batches"},
    {"seq_len", kTitan, "`model.sequence_length`"},
    {"training.steps", kTitan, "`run.steps`"},
    {"training.dataset", kTitan, "`data.train`"},
    {"training.dataset_path", kTitan, "`data.train`"},
    {"training.seed", kTitan, "`run.seed`"},
    {"max_norm", kTitan, "`optimizer.clip_norm`"},
    {"mixed_precision_param", kTitan, "`precision.compute`"},
    {"mixed_precision_reduce", kTitan, "`precision.gradient_reduce`"},
    {"dump_folder", kTitan, "`run.folder`"},
    {"flavor", kTitan, "the sizes themselves: `model.layers`, `model.hidden_size`, …"},
    {"hf_assets_path", kTitan, "`data.tokenizer`"},
    {"tokenizer_path", kTitan, "`data.tokenizer`"},
    {"lr_scheduler.warmup_steps", kTitan, "`learning_rate.warmup_steps`"},
    {"lr_scheduler.decay_ratio", kTitan, "`learning_rate.decay_steps` (a count)"},
    {"lr_scheduler.decay_type", kTitan, "`learning_rate.decay_style`"},
    {"lr_scheduler.min_lr_factor", kTitan, "`learning_rate.min` (a rate)"},
    {"decay_ratio", kTitan, "`learning_rate.decay_steps` (a count)"},
    {"decay_type", kTitan, "`learning_rate.decay_style`"},
    {"min_lr_factor", kTitan, "`learning_rate.min` (a rate)"},
    {"checkpoint.interval", kTitan, "`checkpoint.every_steps`"},
    {"keep_latest_k", kTitan, "`checkpoint.keep_last`"},
    {"metrics.log_freq", kTitan, "`log.every_steps`"},
    {"log_freq", kTitan, "`log.every_steps`"},
    {"enable_tensorboard", kTitan, "`log.tensorboard`"},
    {"validation.freq", kTitan, "`evaluation.every_steps`"},
    {"activation_checkpoint.mode", kTitan, "`recompute.mode`"},
    {"n_layers", kTitan, "`model.layers`"},
    {"n_heads", kTitan, "`model.heads`"},
    {"n_kv_heads", kTitan, "`model.kv_heads`"},
    {"dim", kTitan, "`model.hidden_size`"},
    // nanotron
    {"parallelism.dp", kNanotron, "`parallel.data`"},
    {"parallelism.pp", kNanotron, "`parallel.pipeline`"},
    {"parallelism.tp", kNanotron, kNoTensor},
    {"parallelism.pp_engine", kNanotron, "`parallel.schedule`"},
    {"dp", kNanotron, "`parallel.data`"},
    {"pp", kNanotron, "`parallel.pipeline`"},
    {"tp", kNanotron, kNoTensor},
    {"pp_engine", kNanotron, "`parallel.schedule`"},
    {"tokens.train_steps", kNanotron, "`run.steps`"},
    {"train_steps", kNanotron, "`run.steps`"},
    {"tokens.batch_accumulation_per_replica", kNanotron, kNoMicroBatchCount},
    {"batch_accumulation_per_replica", kNanotron, kNoMicroBatchCount},
    {"val_check_interval", kNanotron, "`evaluation.every_steps`"},
    {"limit_val_batches", kNanotron, "`evaluation.batches`"},
    {"checkpoint_interval", kNanotron, "`checkpoint.every_steps`"},
    {"checkpoints_path", kNanotron, "`run.folder` and `run.name`: checkpoints lie in the run folder"},
    {"resume_checkpoint_path", kNanotron, "`run.resume`"},
    {"zero_stage", kNanotron, "`parallel.sharded_optimizer` (stage 1)"},
    {"accumulate_grad_in_fp32", kNanotron, "gradients are always summed in fp32; there is no key"},
    {"lr_decay_steps", kNanotron, "`learning_rate.decay_steps`"},
    {"lr_decay_starting_step", kNanotron, "`learning_rate.decay_steps` with decay_style = \"wsd\""},
    {"lr_warmup_steps", kNanotron, "`learning_rate.warmup_steps`"},
    {"lr_warmup_style", kNanotron, "warm-up is linear; there is no key"},
    {"min_decay_lr", kNanotron, "`learning_rate.min`"},
    {"general.run", kNanotron, "`run.name`"},
    {"general.project", kNanotron, "`run.folder`"},
    {"general.seed", kNanotron, "`run.seed`"},
    // Hugging Face
    {"num_hidden_layers", kHuggingFace, "`model.layers`"},
    {"num_key_value_heads", kHuggingFace, "`model.kv_heads`"},
    {"intermediate_size", kHuggingFace, "`model.ffn_hidden_size`"},
    {"max_position_embeddings", kHuggingFace, "`model.sequence_length`"},
    {"initializer_range", kHuggingFace, "`model.init_std`"},
    {"rms_norm_eps", kHuggingFace, "`model.norm_epsilon`"},
    {"layer_norm_epsilon", kHuggingFace, "`model.norm_epsilon`"},
    {"tie_word_embeddings", kHuggingFace, "`model.tie_embeddings`"},
    {"attention_bias", kHuggingFace, "`model.qkv_bias`"},
    {"hidden_act", kHuggingFace, "`model.family` (gpt2: GELU, llama: SwiGLU)"},
    {"model_type", kHuggingFace, "`model.family`"},
    {"torch_dtype", kHuggingFace, "`precision.compute`"},
    {"per_device_train_batch_size", kHuggingFace, "`batch.micro`"},
    {"max_steps", kHuggingFace, "`run.steps`"},
    {"num_train_epochs", kHuggingFace, "`run.steps` (a count of optimizer steps)"},
    {"max_grad_norm", kHuggingFace, "`optimizer.clip_norm`"},
    {"gradient_checkpointing", kHuggingFace, "`recompute.mode`"},
    {"warmup_ratio", kHuggingFace, "`learning_rate.warmup_steps` (a count)"},
    {"lr_scheduler_type", kHuggingFace, "`learning_rate.decay_style`"},
    {"save_steps", kHuggingFace, "`checkpoint.every_steps`"},
    {"save_total_limit", kHuggingFace, "`checkpoint.keep_last`"},
    {"eval_steps", kHuggingFace, "`evaluation.every_steps`"},
    {"logging_steps", kHuggingFace, "`log.every_steps`"},
    {"output_dir", kHuggingFace, "`run.folder` and `run.name`"},
    {"resume_from_checkpoint", kHuggingFace, "`run.resume`"},
    {"adam_epsilon", kHuggingFace, "`optimizer.epsilon`"},
    // llm.c and nanoGPT
    {"num_iterations", kLlmC, "`run.steps`"},
    {"total_batch_size", kLlmC, "`batch.global` (sequences, not tokens)"},
    {"val_loss_every", kLlmC, "`evaluation.every_steps`"},
    {"val_max_steps", kLlmC, "`evaluation.batches`"},
    {"sample_every", kLlmC, "text is generated by `penstock generate`"},
    {"checkpoint_every", kLlmC, "`checkpoint.every_steps`"},
    {"checkpoints_keep", kLlmC, "`checkpoint.keep_last`"},
    {"final_learning_rate_frac", kLlmC, "`learning_rate.min` (a rate)"},
    {"learning_rate_decay_frac", kLlmC, "`learning_rate.min` (a rate)"},
    {"warmup_iterations", kLlmC, "`learning_rate.warmup_steps`"},
    {"recompute", kLlmC, "`recompute.mode`"},
    {"train_data_pattern", kLlmC, "`data.train`"},
    {"val_data_pattern", kLlmC, "`data.validation`"},
    {"n_layer", kNanoGpt, "`model.layers`"},
    {"n_head", kNanoGpt, "`model.heads`"},
    {"n_embd", kNanoGpt, "`model.hidden_size`"},
    {"block_size", kNanoGpt, "`model.sequence_length`"},
    {"max_iters", kNanoGpt, "`run.steps`"},
    {"lr_decay_iters", kNanoGpt, "`learning_rate.decay_steps`"},
    {"warmup_iters", kNanoGpt, "`learning_rate.warmup_steps`"},
    {"grad_clip", kNanoGpt, "`optimizer.clip_norm`"},
    {"batch_size", kNanoGpt, "`batch.micro` or `batch.global`"},
    {"out_dir", kNanoGpt, "`run.folder` and `run.name`"},
    {"init_from", kNanoGpt, "`run.resume`"},
    {"dtype", kNanoGpt, "`precision.compute`"},
};

constexpr ForeignName kSections[] = {
    {"training", kTitan, "[run], [batch], [data], [precision]"},
    {"parallelism", "torchtitan and nanotron", "[parallel]"},
    {"activation_checkpoint", kTitan, "[recompute]"},
    {"lr_scheduler", kTitan, "[learning_rate]"},
    {"metrics", kTitan, "[log]"},
    {"profiling", kTitan, "[trace]"},
    {"validation", kTitan, "[evaluation]"},
    {"job", kTitan, "[run]"},
    {"experimental", kTitan, "[parallel]"},
    {"quantize", kTitan, "[precision]"},
    {"float8", kTitan, "[precision]"},
    {"pipeline", kDeepSpeed, "[parallel]"},
    {"zero_optimization", kDeepSpeed, "[parallel]: sharded_optimizer"},
    {"scheduler", kDeepSpeed, "[learning_rate]"},
    {"bf16", kDeepSpeed, "[precision]: compute = \"bf16\""},
    {"fp16", kDeepSpeed, "[precision]"},
    {"activation_checkpointing", kDeepSpeed, "[recompute]"},
    {"tensorboard", kDeepSpeed, "[log]: tensorboard"},
    {"tokens", kNanotron, "[run], [batch], [evaluation]"},
    {"general", kNanotron, "[run]"},
    {"checkpoints", kNanotron, "[checkpoint]"},
    {"data_stages", kNanotron, "[data]"},
    {"logging", kNanotron, "[log]"},
    {"lighteval", kNanotron, "[evaluation]"},
    {"trainer", "NeMo", "[run], [precision], [evaluation]"},
    {"exp_manager", "NeMo", "[run], [checkpoint], [log]"},
};

std::string folded(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const char each = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (each != '_' || !out.empty()) out += each;
  }
  return out;
}

template <size_t N>
const ForeignName* find_in(const ForeignName (&names)[N], const std::string& wanted) {
  for (const ForeignName& each : names) {
    if (wanted == each.name) return &each;
  }
  return nullptr;
}

}  // namespace

const ForeignName* find_foreign_key(const std::string& section, const std::string& key) {
  const std::string name = folded(key);
  const ForeignName* found = find_in(kKeys, folded(section) + "." + name);
  return found != nullptr ? found : find_in(kKeys, name);
}

std::span<const ForeignName> foreign_keys() {
  return kKeys;
}

std::span<const ForeignName> foreign_sections() {
  return kSections;
}

const ForeignName* find_foreign_section(const std::string& section) {
  return find_in(kSections, folded(section));
}

}  // namespace penstock
