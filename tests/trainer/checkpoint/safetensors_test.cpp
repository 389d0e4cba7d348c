// The safetensors format: a writer that the reference implementation reads (fixtures/make_safetensors.py
// checked that), and a reader that refuses each malformed kind with its place.
#include "trainer/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/data_error.h"
#include "kernels/device/error.h"
#include "tests/trainer/checkpoint/temporary_folder.h"

namespace penstock::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'x');
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string refusal(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    return "";
  } catch (const data::DataError& error) {
    return error.what();
  }
}

struct Malformed {
  const char* kind;
  std::string bytes;
  uint64_t offset;
  const char* found;
  const char* expected;
};

std::string with_length(uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + rest;
}

const std::vector<Malformed>& malformed_files() {
  static const std::vector<Malformed> files{
      {"empty file", "", 0, "end of the file after 0 bytes", "8 bytes with the header's length"},
      {"cut length", "abc", 3, "end of the file after 3 bytes", "8 bytes with the header's length"},
      {"huge header", with_length(100'000'001, "{}"), 0, "a header of 100000001 bytes", "at most 100000000"},
      {"largest length", with_length(~uint64_t{0}, "{}"), 0, "18446744073709551615", "at most 100000000"},
      {"header past the end", with_length(10, "{}"), 0, "a header of 10 bytes in a file of 10",
       "at most 2 bytes"},
      {"empty header", file_of("", 0), 8, "an empty header", "starts with '{'"},
      {"space before the object", file_of(" {}", 0), 8, "\" {}\"", "starts with '{'"},
      {"a list", file_of("[]", 0), 8, "\"[]\"", "starts with '{'"},
      {"broken JSON", file_of(R"({"a": )", 0), 14, "not JSON", "a JSON object"},
      {"more after the JSON", file_of("{} x", 0), 11, "not JSON", "a JSON object"},
      {"invalid UTF-8", file_of("{\"\xff\": 1}", 0), 10, "not JSON", "a JSON object"},
      {"a name twice",
       file_of(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       9, "the name a twice", "each name once"},
      {"a key twice", file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), 14,
       "the name dtype twice", "each name once"},
      {"too deep", file_of(R"({"a":{"shape":[[1]]}})", 0), 8, "nested deeper", "name, entry, list"},
      {"tensor is a number", file_of(R"({"a": 1})", 0), 9, "tensor a = number", "an object"},
      {"no dtype", file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), 9, "dtype null", "BOOL U8"},
      {"unknown dtype", file_of(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1), 9,
       "dtype \"F4\"", "one of BOOL U8"},
      {"no shape", file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), 9, "shape = null",
       "a list of counts"},
      {"negative extent", file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1), 9,
       "shape = [-1]", "a list of counts"},
      {"fractional extent", file_of(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1), 9,
       "shape = [1.0]", "a list of counts"},
      {"extent beyond 64 bits",
       file_of(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", 1), 9,
       "shape = [", "a list of counts"},
      {"size overflows",
       file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,1],"data_offsets":[0,0]}})", 0), 9,
       "shape [4611686018427387904, 1]", "a size that fits 64 bits"},
      {"one offset", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), 9,
       "data_offsets [0]", "two offsets"},
      {"end before begin", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), 9,
       "data_offsets [1, 0]", "two offsets"},
      {"wrong size", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), 9,
       "with 4 bytes", "8 bytes for shape [2] of F32"},
      {"past the end", file_of(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 4), 9,
       "up to byte 5 of the data", "at most 4"},
      {"hole",
       file_of(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           3),
       61, "tensor b from byte 2 of the data (leaves a hole)", "1, where the one before ends"},
      {"hole at the start", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), 9,
       "leaves a hole", "0, where the one before ends"},
      {"overlap",
       file_of(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       61, "tensor b from byte 1 of the data (overlaps the one before)", "2, where the one before ends"},
      {"bytes left over", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 3), 62,
       "2 bytes after the last tensor", "the end of the file"},
      {"metadata is a list", file_of(R"({"__metadata__": []})", 0), 9, "__metadata__ that is no object",
       "an object of strings"},
      {"metadata with a number", file_of(R"({"__metadata__": {"step": 3}})", 0), 9, "__metadata__.step = 3",
       "a string"},
  };
  return files;
}

TEST(SafetensorsReader, RefusesEachMalformedKindWithItsPlace) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  for (const Malformed& malformed : malformed_files()) {
    write_bytes(path, malformed.bytes);
    EXPECT_THAT(
        refusal(path),
        AllOf(HasSubstr(path + ": byte " + std::to_string(malformed.offset) + ": found "),
              HasSubstr(malformed.found), HasSubstr(std::string("expected ")), HasSubstr(malformed.expected)))
        << malformed.kind;
  }
}

TEST(SafetensorsReader, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  const std::string bytes = file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3);
  write_bytes(path, bytes);
  ASSERT_EQ(refusal(path), "");
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path, bytes.substr(0, size));
    EXPECT_NE(refusal(path), "") << size;
  }
}

TEST(SafetensorsReader, ReadsWhatTheReferenceImplementationWrote) {
  const SafetensorsFile file(PENSTOCK_FIXTURES "/reference.safetensors");
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) {
    names.push_back(tensor.name + ":" + std::string(name_of(tensor.type)) + ":" +
                    std::to_string(tensor.shape.size()));
  }
  EXPECT_THAT(names, ElementsAre("counts:I64:1", "norm.weight:F32:1", "scale:F32:0", "weight:F32:2",
                                 "half:F16:2", "empty:U8:2", "flags:U8:1"));
  const StoredTensor& weight = file.tensors()[3];
  EXPECT_EQ(weight.shape, (std::vector<uint64_t>{2, 3}));
  std::vector<float> values(6);
  std::memcpy(values.data(), file.bytes() + weight.begin, weight.end - weight.begin);
  EXPECT_THAT(values, ElementsAre(0.5f, -1.25f, 3.0f, 1e-30f, -0.0f, 7.0f));
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(SafetensorsReader, TakesUnpaddedHeadersAndScalars) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  write_bytes(path, file_of(R"({"s":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}}   )", 1));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.tensors()[0].type, StoredType::f8_e4m3);
  EXPECT_EQ(file.tensors()[0].end, file.file_bytes());
  write_bytes(path, file_of("{}", 0));
  EXPECT_TRUE(SafetensorsFile(path).tensors().empty());
}

TEST(SafetensorsWriter, SortsByAlignmentThenNameAndPadsTheHeader) {
  const SafetensorsLayout layout = lay_out_safetensors({{"z", StoredType::f64, {1}, 0, 0},
                                                        {"b", StoredType::u8, {3}, 0, 0},
                                                        {"y", StoredType::f32, {2, 2}, 0, 0},
                                                        {"a", StoredType::bf16, {5}, 0, 0},
                                                        {"x", StoredType::i32, {1}, 0, 0}},
                                                       {{"step", "3"}});
  std::vector<std::string> names;
  for (const StoredTensor& tensor : layout.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.begin % size_of(tensor.type), 0u) << tensor.name;
  }
  EXPECT_THAT(names, ElementsAre("z", "x", "y", "a", "b"));
  EXPECT_EQ(layout.head.size() % 8, 0u);
  EXPECT_EQ(layout.file_bytes, layout.head.size() + 8 + 4 + 16 + 10 + 3);
  EXPECT_THAT(layout.head, AllOf(HasSubstr(R"("format":"pt")"), HasSubstr(R"("step":"3")")));
  EXPECT_EQ(layout.head[8], '{');

  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  write_bytes(path, layout.head + std::string(layout.file_bytes - layout.head.size(), 'x'));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), layout.tensors.size());
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    EXPECT_EQ(file.tensors()[i].name, layout.tensors[i].name);
    EXPECT_EQ(file.tensors()[i].begin, layout.tensors[i].begin);
    EXPECT_EQ(file.tensors()[i].shape, layout.tensors[i].shape);
  }
  EXPECT_EQ(file.head(), layout.head);
}

TEST(SafetensorsWriter, RefusesEqualNamesAndOverflow) {
  EXPECT_THROW(lay_out_safetensors({{"a", StoredType::u8, {1}, 0, 0}, {"a", StoredType::f32, {1}, 0, 0}}, {}),
               UsageError);
  EXPECT_THROW(lay_out_safetensors({{"a", StoredType::f64, {uint64_t{1} << 61}, 0, 0}}, {}), UsageError);
}

// What grows with the square of the number of tensors would take minutes of a processor, and is ended by its
// limit.
void lay_out_and_read_many(const std::string& path, size_t count) {
  constexpr rlim_t processor_seconds = 60;
  const rlimit limit{processor_seconds, processor_seconds};
  if (setrlimit(RLIMIT_CPU, &limit) != 0) _exit(1);
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back({fmt::format("layers.{:07}.weight", i), StoredType::u8, {1}, 0, 0});
  }
  const SafetensorsLayout layout = lay_out_safetensors(std::move(tensors), {});
  write_bytes(path, layout.head + std::string(count, 'x'));
  const SafetensorsFile file(path);
  const bool all = file.tensors().size() == count && file.tensors().back().name == layout.tensors.back().name;
  _exit(all ? 0 : 2);
}

TEST(SafetensorsWriter, AndReaderTakeWorkInProportionToTheTensors) {
  const TemporaryFolder folder;
  EXPECT_EXIT(lay_out_and_read_many(folder.path() + "/many.safetensors", 400'000),
              ::testing::ExitedWithCode(0), "");
}

TEST(StoredTypes, NameEachTypeOnce) {
  for (const DType dtype :
       {DType::fp32, DType::bf16, DType::fp16, DType::fp64, DType::i32, DType::i64, DType::u8}) {
    const StoredType type = stored_type(dtype);
    EXPECT_EQ(size_of(type), size_of(dtype));
    EXPECT_EQ(dtype_of(type), dtype);
    EXPECT_EQ(stored_type(name_of(type)), type);
  }
  EXPECT_EQ(dtype_of(StoredType::boolean), std::nullopt);
  EXPECT_EQ(stored_type("f32"), std::nullopt);
}

}  // namespace
}  // namespace penstock::checkpoint
