#pragma once

#include <string>

#include "trainer/job/job.h"
#include "trainer/job/job_reader.h"
#include "trainer/job/read_job.h"

namespace penstock {

/// Fills every value that follows from others where the author gave none.
void resolve(Job& job, const GivenKeys& given, const Launch& launch);

/// learning_rate.decay_steps where the job gives none: a tenth of the steps (wsd), or all of them. A run that
/// ends within its warm-up never decays, but what is written of it has to be a job all the same.
int64_t default_decay_steps(const Job& job);

/// Checks keys against each other on a resolved job; says nothing about keys that are already known to be
/// wrong. `shared_ranks`: those that parallel.data = "auto" made replicas of; 0 where the job says how many.
void check_across(const Job& job, const GivenKeys& given, int64_t shared_ranks, Problems& problems);

/// Adds a problem for every value that this version does not implement.
void refuse_not_yet(const Job& job, const GivenKeys& given, Problems& problems);

/// Why a value of this key is refused by refuse_not_yet(), for the page of all keys; "" where none is.
std::string not_yet(const std::string& section, const std::string& key);

}  // namespace penstock
