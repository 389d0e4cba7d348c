#include "data/json/json_fault.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::data {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

JsonFault fault_of(const std::string& text) {
  try {
    const json parsed = json::parse(text);
    ADD_FAILURE() << "parsed: " << parsed.dump();
  } catch (const json::exception& error) {
    return json_fault(text, error);
  }
  return {};
}

TEST(JsonFault, HasLineColumnAndReason) {
  const JsonFault fault = fault_of("{\n  \"a\": [1, 2,\n  ]\n}");
  EXPECT_EQ(fault.line, 3U);
  EXPECT_EQ(fault.column, 3U);
  EXPECT_EQ(fault.byte, 18U);
  EXPECT_THAT(fault.what, testing::StartsWith("unexpected ']'"));
}

// Whatever the text, the reader never sees what the library calls its exceptions.
TEST(JsonFault, ReasonsAreInWords) {
  for (const char* text : {"", "{", "[1,]", "nan", "\"\x01\"", "{\"a\": 1e999}", "\xff", "1 2"}) {
    EXPECT_THAT(fault_of(text).what, Not(HasSubstr("exception"))) << text;
    EXPECT_FALSE(fault_of(text).what.empty()) << text;
    EXPECT_LE(fault_of(text).byte, std::string(text).size()) << text;
  }
}

TEST(JsonFault, NumbersThatNoDoubleHoldsHaveAPlace) {
  const JsonFault fault = fault_of("{\"a\": 1,\n \"b\": 1e999}");
  EXPECT_EQ(fault.line, 2U);
  EXPECT_EQ(fault.column, 7U);
  EXPECT_THAT(fault.what, HasSubstr("1e999"));
}

TEST(JsonFault, WrongTypesAreReasonsToo) {
  try {
    const json parsed = json::parse("{\"a\": 1}");
    ADD_FAILURE() << parsed.at("b").dump();
  } catch (const json::exception& error) {
    EXPECT_EQ(json_reason(error), "key 'b' not found");
  }
}

}  // namespace
}  // namespace penstock::data
