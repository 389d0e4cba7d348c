#include "tests/trainer/commands/data_commands.h"

#include <csignal>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/encoder.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "data/tokenizer_json.h"
#include "tests/data/packed.h"
#include "tests/data/temporary_folder.h"
#include "trainer/commands/document_split.h"

namespace penstock::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::get_file;
using tests::put_file;

TEST_F(DataCommands, TrainPrepareInspect) {
  const Outcome prepared = prepare("text.txt", "text");
  EXPECT_EQ(prepared.status, 0) << prepared.error;
  EXPECT_THAT(prepared.out, AllOf(HasSubstr("text.idx/.bin: "), HasSubstr(" tokens, 1 document, uint16"),
                                  HasSubstr("bytes a token")));
  EXPECT_THAT(prepared.error, HasSubstr("preparing 100 %"));
  EXPECT_EQ(tokens_as_text(folder_ / "text", folder_ / "tok.json"), verses(200) + "<|endoftext|>");

  const Outcome shown =
      run({"data", "inspect", folder_ / "text", "--tokenizer", folder_ / "tok.json", "--sample", "0"});
  EXPECT_EQ(shown.status, 0) << shown.error;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("equal to the side-car's hashes"),
                               HasSubstr("the one that made the file"), HasSubstr("And it came to pass")));
  const Outcome as_json = run(
      {"data", "inspect", folder_ / "text", "--tokenizer", folder_ / "tok.json", "--sample", "1", "--json"});
  const auto object = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(object["documents"], 1);
  EXPECT_EQ(object["vocabulary"], 300);
  EXPECT_EQ(object["tokenizer_matches"], true);
  EXPECT_EQ(object["sample"]["tokens"].size(), 65u);
  EXPECT_EQ(object["sample"]["first_token"], 64);
  EXPECT_EQ(object["format"], "megatron");
}

TEST_F(DataCommands, EverySeparatorKeepsTheText) {
  put_file(folder_ / "json.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  put_file(folder_ / "lines.txt", "one\n\ntwo\n");
  put_file(folder_ / "ends.txt", "one<|endoftext|>two");
  const std::vector<std::array<std::string, 2>> cases{{"json.jsonl", "file"},
                                                      {"lines.txt", "line"},
                                                      {"lines.txt", "blank-line"},
                                                      {"ends.txt", "end-of-text"}};
  for (const auto& [input, separator] : cases) {
    const bool json = input == "json.jsonl";
    ASSERT_EQ(prepare(input, "x",
                      json ? std::vector<std::string>{}
                           : std::vector<std::string>{"--document-separator", separator})
                  .status,
              0)
        << separator;
    EXPECT_EQ(tokens_as_text(folder_ / "x", folder_ / "tok.json"), "one<|endoftext|>two<|endoftext|>")
        << separator;
  }
}

TEST_F(DataCommands, ValidationTakesDrawnDocuments) {
  ASSERT_EQ(
      prepare("text.txt", "t", {"--document-separator", "blank-line", "--validation-fraction", "0.1"}).status,
      0);
  const data::TokenFile training(folder_ / "t");
  const data::TokenFile validation(folder_ / "t-validation");
  EXPECT_EQ(training.index()->documents(), 36u);
  EXPECT_EQ(validation.index()->documents(), 4u);
}

TEST_F(DataCommands, ValidationOfOneDocumentIsItsEnd) {
  ASSERT_EQ(prepare("text.txt", "t", {"--validation-fraction", "0.1"}).status, 0);
  std::string first = tokens_as_text(folder_ / "t", folder_ / "tok.json");
  std::string second = tokens_as_text(folder_ / "t-validation", folder_ / "tok.json");
  const std::string end = "<|endoftext|>";
  ASSERT_EQ(first.substr(first.size() - end.size()), end);
  first.resize(first.size() - end.size());
  EXPECT_EQ(first + second, verses(200) + end);
  EXPECT_EQ(first.back(), '\n') << "cut at a line end";
  EXPECT_NEAR(static_cast<double>(second.size()), 0.1 * static_cast<double>(verses(200).size()), 120);
}

TEST_F(DataCommands, ReadAPipe) {
  // The second writer may find that its reader has gone already.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { put_file(folder_ / "pipe", "one\ntwo"); });
  const Outcome outcome = prepare("pipe", "p", {"--document-separator", "line"});
  writer.join();
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  std::thread again([&] { std::ofstream(folder_ / "pipe") << "one\ntwo"; });
  const Outcome refused = prepare("pipe", "q", {"--validation-fraction", "0.5"});
  again.join();
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.error, HasSubstr("a pipe, whose size is not known"));
  std::signal(SIGPIPE, before);
}

TEST_F(DataCommands, BytesThatAreNoUtf8AreKeptAndMentioned) {
  put_file(folder_ / "latin.txt", "caf\xe9 and na\xefve\n");
  const Outcome outcome = prepare("latin.txt", "l");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.error, HasSubstr("latin.txt: 2 bytes are not UTF-8, the first at byte 3"));
  EXPECT_EQ(tokens_as_text(folder_ / "l", folder_ / "tok.json"), "caf\xe9 and na\xefve\n<|endoftext|>");
}

TEST_F(DataCommands, OddInputs) {
  put_file(folder_ / "empty.txt", "");
  put_file(folder_ / "one.txt", "x");
  put_file(folder_ / "newlines.txt", std::string(1000, '\n'));
  put_file(folder_ / "bad.jsonl", "{\"text\": 5}\n");
  std::string binary;
  for (int i = 0; i < 100000; ++i) binary.push_back(static_cast<char>(i * i % 251));
  put_file(folder_ / "binary", binary);

  EXPECT_EQ(train({"one.txt"}, "300", "a.json").status, 0);
  EXPECT_THAT(train({"one.txt"}, "300", "a.json").error, HasSubstr("257 tokens instead of 300"));
  EXPECT_EQ(train({"newlines.txt", "binary", "empty.txt"}, "400", "a.json").status, 0);
  EXPECT_EQ(train({"empty.txt"}, "300", "b.json").status, 3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.json"));

  EXPECT_EQ(prepare("one.txt", "o").status, 0);
  EXPECT_EQ(prepare("binary", "b").status, 0);
  EXPECT_EQ(tokens_as_text(folder_ / "b", folder_ / "tok.json"), binary + "<|endoftext|>");
  EXPECT_EQ(prepare("newlines.txt", "n").status, 0);
  for (const auto& [input, more, says] :
       std::vector<std::tuple<std::string, std::vector<std::string>, std::string>>{
           {"empty.txt", {}, "found no text"},
           {"newlines.txt", {"--document-separator", "line"}, "found no text"},
           {"none.txt", {}, "No such file"},
           {".", {}, "found a folder"},
           {"bad.jsonl", {}, "bad.jsonl:1: byte 0"},
           {"one.txt", {"--validation-fraction", "0.5"}, "none fell to validation"},
           {"text.txt",
            {"--document-separator", "line", "--validation-fraction", "0.0001"},
            "none fell to validation"},
           {"text.txt", {"--end-of-text", "</s>"}, "`<|endoftext|>`"}}) {
    const Outcome outcome = prepare(input, "x", more);
    EXPECT_EQ(outcome.status, 3) << input;
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("penstock: error: "), HasSubstr(says)));
    for (const char* ending : {".idx", ".bin", ".bin.partial", ".bin.meta.toml", "-validation.bin.partial"}) {
      EXPECT_FALSE(std::filesystem::exists(folder_ / ("x" + std::string(ending)))) << input << ending;
    }
  }
}

TEST_F(DataCommands, OddOutputs) {
  EXPECT_THAT(train({"text.txt"}, "300", "no/tok.json").error, HasSubstr("No such file or directory"));
  EXPECT_THAT(train({"text.txt"}, "300", ".").error, HasSubstr("found a folder"));
  const Outcome absent = prepare("text.txt", "no/x");
  EXPECT_EQ(absent.status, 6);
  EXPECT_THAT(absent.error,
              HasSubstr("no/x.bin.partial: cannot create it: No such file or directory; check the path"));
  for (const char* ending : {".bin", ".idx", "-validation.bin"}) {  // the text would be gone
    put_file(folder_ / (std::string("self") + ending), "a text");
    const Outcome own = prepare(std::string("self") + ending, "self");
    EXPECT_EQ(own.status, 3) << ending;
    EXPECT_THAT(own.error, HasSubstr("an input under the name of an output"));
    EXPECT_EQ(get_file(folder_ / (std::string("self") + ending)), "a text");
  }
  EXPECT_THAT(prepare("text.txt", "").error, HasSubstr("no name for the token files"));
  EXPECT_THAT(prepare("text.txt", ".").error, HasSubstr("no name for the token files"));
}

TEST_F(DataCommands, ArgumentsAreChecked) {
  EXPECT_EQ(train({"text.txt"}, "256", "x.json").status, -1);
  EXPECT_EQ(train({"text.txt"}, "99999999999999999999", "x.json").status, -1);
  EXPECT_EQ(train({"text.txt"}, "many", "x.json").status, -1);
  EXPECT_EQ(prepare("text.txt", "x", {"--validation-fraction", "1"}).status, -1);
  EXPECT_EQ(prepare("text.txt", "x", {"--document-separator", "page"}).status, -1);
  EXPECT_EQ(run({"data", "inspect"}).status, -1);
}

TEST_F(DataCommands, InspectFindsDamage) {
  ASSERT_EQ(prepare("text.txt", "t").status, 0);
  std::string bin = get_file(folder_ / "t.bin");
  bin[100] = static_cast<char>(bin[100] ^ 1);
  put_file(folder_ / "t.bin", bin);
  const Outcome outcome = run({"data", "inspect", folder_ / "t"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.error, HasSubstr("a block with XXH3"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(run({"data", "inspect", folder_ / "none"}).status, 3);
}

TEST_F(DataCommands, InspectMakesASideCarForForeignFiles) {
  ASSERT_EQ(prepare("text.txt", "t").status, 0);
  const std::string side_car = data::side_car_path(folder_ / "t.bin");
  const std::string before = get_file(side_car);
  std::filesystem::remove(side_car);
  EXPECT_THAT(run({"data", "inspect", folder_ / "t"}).out, HasSubstr("no side-car to compare with"));
  EXPECT_FALSE(std::filesystem::exists(side_car));
  const Outcome written = run({"data", "inspect", folder_ / "t", "--write-side-car"});
  EXPECT_EQ(written.status, 0);
  EXPECT_THAT(written.out, HasSubstr("the side-car with its hashes is written"));
  EXPECT_EQ(data::read_side_car(folder_ / "t.bin")->block_hashes.size(), 1u);
  EXPECT_EQ(run({"data", "inspect", folder_ / "t"}).status, 0);
}

TEST_F(DataCommands, InspectRefusesASampleThatIsNotThere) {
  ASSERT_EQ(prepare("text.txt", "t").status, 0);
  const Outcome outcome = run({"data", "inspect", folder_ / "t", "--sample", "100000"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.error, HasSubstr("found sample 100000, expected 0 to "));
  const data::TokenFile file(folder_ / "t");
  const std::string last = std::to_string((file.tokens() - 1) / 64 - 1);
  EXPECT_EQ(run({"data", "inspect", folder_ / "t", "--sample", last}).status, 0);
}

// A sample is shown as the run with that seed reads it.
TEST_F(DataCommands, InspectShowsTheSamplesOfTraining) {
  ASSERT_EQ(prepare("text.txt", "t", {"--document-separator", "line"}).status, 0);
  data::SamplerOptions options;
  options.sources = {{folder_ / "t", std::nullopt}};
  options.sequence_length = 100;
  options.vocabulary = 300;
  options.seed = 7;
  const data::Sampler sampler(options);
  std::vector<int32_t> inputs(100);
  std::vector<int32_t> targets(100);
  std::vector<int32_t> positions(100);
  std::vector<int32_t> starts(100);
  const uint64_t index = 2 * sampler.samples_per_epoch() + 5;
  starts.resize(sampler.read(index, {inputs, targets, positions, starts}));
  ASSERT_GE(starts.size(), 1u);
  const std::vector<std::string> arguments{
      "data",   "inspect", folder_ / "t", "--sample", "5",           "--length",          "100",
      "--seed", "7",       "--epoch",     "2",        "--tokenizer", folder_ / "tok.json"};
  std::vector<std::string> as_json = arguments;
  as_json.emplace_back("--json");
  const auto sample = nlohmann::json::parse(run(as_json).out)["sample"];
  EXPECT_EQ(sample["first_token"], sampler.place(index).first_token);
  inputs.push_back(targets.back());
  EXPECT_EQ(sample["tokens"].get<std::vector<int32_t>>(), inputs);
  EXPECT_EQ(sample["document_starts"].get<std::vector<int32_t>>(), starts);
  const Outcome shown = run(arguments);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("sample 5 of epoch 2 with seed 7: tokens "),
                               HasSubstr("--- a document begins at " + std::to_string(starts[0]) + ": ")));
  EXPECT_EQ(run({"data", "inspect", folder_ / "t", "--seed", "7"}).status, -1);
  EXPECT_EQ(run({"data", "inspect", folder_ / "t", "--sample", "1", "--epoch", "7"}).status, -1);
}

TEST_F(DataCommands, InspectReadsHeaderlessFiles) {
  std::string bytes;
  for (const int token : {1, 2, 0, 4, 0, 6}) bytes += {static_cast<char>(token), '\0'};
  put_file(folder_ / "train.bin", bytes);
  const std::string file = folder_ / "train.bin";
  const Outcome refused = run({"data", "inspect", file});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.error,
              HasSubstr("penstock data inspect " + file + " --headerless uint16 --write-side-car"));
  EXPECT_EQ(run({"data", "inspect", file, "--document-token", "5"}).status, -1);
  EXPECT_THAT(run({"data", "inspect", file, "--headerless", "uint16", "--document-token", "65536"}).error,
              HasSubstr("a token of 16 bits"));
  const auto unknown =
      nlohmann::json::parse(run({"data", "inspect", file, "--headerless", "uint16", "--json"}).out);
  EXPECT_EQ(unknown["documents_known"], false);
  EXPECT_THAT(run({"data", "inspect", file, "--headerless", "uint16"}).out,
              HasSubstr("nothing says where they begin"));
  EXPECT_EQ(
      run({"data", "inspect", file, "--headerless", "uint16", "--document-token", "0", "--write-side-car"})
          .status,
      0);
  const auto known =
      nlohmann::json::parse(run({"data", "inspect", file, "--json", "--sample", "0", "--length", "5"}).out);
  EXPECT_EQ(known["format"], "headerless");
  EXPECT_EQ(known["documents"], 3);
  EXPECT_EQ(known["document_token"], 0);
  EXPECT_EQ(known["sample"]["document_starts"].get<std::vector<int>>(), (std::vector<int>{0, 3}));
  EXPECT_THAT(run({"data", "inspect", file, "--headerless", "uint32"}).error,
              HasSubstr("delete it to describe the file anew"));
  // With a tokenizer its end of text ends documents.
  std::filesystem::remove(data::side_car_path(file));
  const auto by_tokenizer = nlohmann::json::parse(
      run({"data", "inspect", file, "--headerless", "uint16", "--tokenizer", folder_ / "tok.json", "--json"})
          .out);
  EXPECT_EQ(by_tokenizer["document_token"], *data::load_tokenizer(folder_ / "tok.json").end_of_text());
  ASSERT_EQ(prepare("text.txt", "t").status, 0);
  EXPECT_THAT(run({"data", "inspect", folder_ / "t", "--headerless", "uint16"}).error,
              HasSubstr("a file of the format megatron"));
}

TEST_F(DataCommands, PatternsAndPackedInputs) {
  std::filesystem::create_directory(folder_ / "in");
  put_file(folder_ / "in/b.txt", "two\n");
  put_file(folder_ / "in/a.txt", tests::gzip("one\n"));
  put_file(folder_ / "in/c.jsonl.zst", tests::zstd("{\"text\": \"three\"}\n"));
  ASSERT_EQ(prepare("in/*", "p", {"--document-separator", "line"}).status, 0);
  EXPECT_EQ(tokens_as_text(folder_ / "p", folder_ / "tok.json"),
            "one<|endoftext|>two<|endoftext|>three<|endoftext|>");
  const Outcome none = prepare("in/*.json", "p");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.error, HasSubstr("no file of this name and none that this pattern matches"));
  put_file(folder_ / "in/[x].txt", "brackets");
  EXPECT_EQ(prepare("in/[x].txt", "q").status, 0) << "a name that is one is no pattern";
  put_file(folder_ / "lines", "{\"text\": \"four\"}\n");
  ASSERT_EQ(prepare("lines", "r", {"--json-lines"}).status, 0);
  EXPECT_EQ(tokens_as_text(folder_ / "r", folder_ / "tok.json"), "four<|endoftext|>");
  put_file(folder_ / "cut.gz", tests::gzip(verses(300)).substr(0, 500));
  const Outcome cut = prepare("cut.gz", "s");
  EXPECT_EQ(cut.status, 3);
  EXPECT_THAT(cut.error, HasSubstr("cut.gz: byte 500: found the end of the file within a gzip stream"));
  put_file(folder_ / "packed.gz", tests::gzip(verses(300)));
  EXPECT_THAT(prepare("packed.gz", "s", {"--validation-fraction", "0.1"}).error, HasSubstr("a packed file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s.bin.partial"));
}

TEST_F(DataCommands, ValidationTakesAtMostSoManyDocuments) {
  ASSERT_EQ(prepare("text.txt", "t", {"--document-separator", "line", "--validation-documents", "4"}).status,
            0);
  EXPECT_EQ(data::TokenFile(folder_ / "t-validation").facts().documents, 4u);
  EXPECT_EQ(data::TokenFile(folder_ / "t").facts().documents, 196u);
  const Outcome few = prepare(
      "text.txt", "t",
      {"--document-separator", "line", "--validation-documents", "400", "--validation-fraction", "0.1"});
  EXPECT_EQ(few.status, 0);
  EXPECT_THAT(few.error,
              HasSubstr("20 documents were drawn for validation, fewer than 400: one of 10 in a row"));
  EXPECT_THAT(prepare("text.txt", "t", {"--validation-documents", "4"}).error,
              HasSubstr("a text file that is one document"));
}

// Resident memory at its highest, of a process that does nothing else.
size_t peak_of(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  struct rusage usage {};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

// A document a line, packed: what would grow with text, with documents or with members would show.
TEST_F(DataCommands, MemoryDoesNotGrowWithTheInput) {
  std::string lines;
  while (lines.size() < 2'000'000) lines += "of " + std::to_string(lines.size() % 997) + "\n";
  const std::string member = tests::gzip(lines);
  const auto peak = [&](int members) {
    std::string packed;
    for (int i = 0; i < members; ++i) packed += member;
    put_file(folder_ / "big.gz", packed);
    DataPrepareOptions options;
    options.inputs = {folder_ / "big.gz"};
    options.tokenizer = folder_ / "tok.json";
    options.output = folder_ / "big";
    options.separator = data::DocumentSeparator::line;
    return peak_of([&] {
      static_cast<void>(std::freopen("/dev/null", "w", stdout));
      static_cast<void>(std::freopen("/dev/null", "w", stderr));
      run_data_prepare(options);
    });
  };
  const size_t small = peak(4);
  const size_t large = peak(24);
  EXPECT_GT(data::TokenFile(folder_ / "big").facts().documents, 6'000'000u);
  EXPECT_LT(large, small + (size_t{12} << 20))
      << "48 MB of text and 6 million documents against a sixth of that";
  EXPECT_LT(large, size_t{300} << 20);
}

TEST(DocumentDraw, TakesOneOfEachBlock) {
  for (const double fraction : {0.5, 0.1, 0.05, 0.3, 0.9, 0.99, 0.001, 1.0 / 3}) {
    const DocumentDraw draw(fraction);
    uint64_t taken = 0;
    for (uint64_t document = 0; document < 20000; ++document) {
      if (draw.is_validation(document)) ++taken;
      const double exact = static_cast<double>(document + 1) * fraction;
      ASSERT_NEAR(static_cast<double>(taken), exact, 1.001 + fraction)
          << "of " << document + 1 << " at " << fraction;
    }
  }
  EXPECT_FALSE(DocumentDraw(0).is_validation(3));
}

TEST(PlaceToSplit, PrefersALineEnd) {
  EXPECT_EQ(place_to_split("one two\nthree", 3), 8u);
  EXPECT_EQ(place_to_split("one two three", 4), 7u);
  EXPECT_EQ(place_to_split("onetwo", 2), 6u);
  EXPECT_EQ(place_to_split("", 0), 0u);
}

}  // namespace
}  // namespace penstock::commands
