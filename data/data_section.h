#pragma once

#include <string>
#include <vector>

namespace penstock {

/// One token file of a mixture.
struct DataSource {
  std::string path;
  double weight = 1.0;

  bool operator==(const DataSource&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("path", path).required().path().help("a token file, without .idx or .bin");
    v.key("weight", weight)
        .above(0)
        .help("its share of the samples, relative to the others'; 1/65536 of all or more");
  }
};

/// [data]: what is trained on. Paths are relative to the working directory.
struct DataSection {
  std::vector<DataSource> train;
  std::string validation;
  std::string tokenizer;
  bool document_mask = false;

  bool operator==(const DataSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("train", train)
        .shorthand("path")
        .required()
        .not_empty()
        .help(
            "token files (of `penstock data prepare`, Megatron-LM, llm.c, nanoGPT), with weights: a mixture");
    v.key("validation", validation).path().none_if_empty().help("token file of the evaluation");
    v.key("tokenizer", tokenizer)
        .path()
        .none_if_empty()
        .help("tokenizer.json; gives vocab_size, and text in samples");
    v.key("document_mask", document_mask).help("attention and positions do not cross document borders");
  }
};

}  // namespace penstock
