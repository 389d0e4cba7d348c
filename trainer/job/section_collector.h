#pragma once

#include <utility>
#include <vector>

#include "trainer/job/job_keys.h"
#include "trainer/job/key_builder.h"

namespace penstock {

/// The visitor of a whole file's describe(): turns its sections into keys.
class SectionCollector {
 public:
  template <class Section>
  void section(const char* name, Section& section) {
    sections_.push_back({name, key_detail::fields_of(section)});
  }
  std::vector<SectionKeys> take() { return std::move(sections_); }

 private:
  std::vector<SectionKeys> sections_;
};

}  // namespace penstock
