#pragma once

#include <cstddef>
#include <vector>

#include "model/rank_model.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/job/job.h"

namespace penstock {

/// A rank's share of a checkpoint: every parameter's master under its global name, its moments under
/// "<name>.moment1" and "<name>.moment2", all fp32, of what the rank's optimizer owns; of an asynchronous run
/// also the version of the weights before the last update, as kernels read it, under "<name>.before". A tied
/// weight stands once, under the embedding's name. The sources point into the model's memory.
std::vector<checkpoint::Source> model_sources(const model::ParameterStore& parameters);

/// Host memory that a copy of model_sources() of such a rank takes (StateSnapshot::bytes), before the rank
/// exists; of those that share an optimizer, of the one that owns most.
size_t snapshot_bytes(const model::RankConfig& config);

/// Whether such a copy is held, so that steps go on while it is written.
bool saves_in_background(const Job& job);

/// The tensors that this checkpoint must hold if it is one of this model, over all ranks: if it has an
/// earlier version of any parameter, then of all.
std::vector<checkpoint::TensorDescription> model_tensors(const checkpoint::Checkpoint& checkpoint,
                                                         const ModelSection& model);

/// Copies a checkpoint's tensors into the parameters and renews the compute copies; of a model that takes no
/// steps (RankConfig::forward_only) the weights alone. Without an earlier version of the weights in the
/// checkpoint that of now stands for it; one that the model has no place for is left. Waits. CheckpointError
/// listing every tensor that is missing, too many, or of another shape.
void load_parameters(const checkpoint::Checkpoint& checkpoint, const ModelSection& model,
                     model::ParameterStore& parameters, DeviceKind device, math::Math& math, Stream& stream);
void load_model(const checkpoint::Checkpoint& checkpoint, model::RankModel& rank, Stream& stream);

}  // namespace penstock
