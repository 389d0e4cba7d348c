#pragma once

#include <cstddef>
#include <vector>

#include "model/rank_model.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {

/// A rank's share of a checkpoint: every parameter's master under its global name, its moments under
/// "<name>.moment1" and "<name>.moment2", all fp32; of an asynchronous run also the version of the weights
/// before the last update, as kernels read it, under "<name>.before". A tied weight stands once, under the
/// embedding's name. The sources point into the model's memory.
std::vector<checkpoint::Source> model_sources(const model::ParameterStore& parameters);

/// Makes the sources of a device's memory point to copies in the host's, which it returns and which must live
/// as long; the processor's stay where they are. Waits for the stream.
std::vector<std::byte> copy_to_host(std::vector<checkpoint::Source>& sources, const Device& device,
                                    Stream& stream);

/// The tensors that this checkpoint must hold if it is one of this model, over all ranks: if it has an
/// earlier version of any parameter, then of all.
std::vector<checkpoint::TensorDescription> model_tensors(const checkpoint::Checkpoint& checkpoint,
                                                         const ModelSection& model);

/// Copies a checkpoint's tensors into the model and renews the compute copies. Without an earlier version of
/// the weights in the checkpoint that of now stands for it; one that the model has no place for is left.
/// Waits. CheckpointError listing every tensor that is missing, too many, or of another shape.
void load_model(const checkpoint::Checkpoint& checkpoint, model::RankModel& rank, Stream& stream);

}  // namespace penstock
