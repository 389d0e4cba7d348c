// Checks that hold for every key. They are generated from the descriptions, so a new key is covered when it
// is added.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/job/job_keys.h"
#include "trainer/job/read_job.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// Values of one element of the key that must be refused, as TOML text.
std::vector<std::string> bad_elements(const Key& key) {
  switch (key.kind) {
    case KeyKind::boolean:
      return {"1", "\"x\"", "1.0", "[true]", "{a = 1}", "2026-01-01"};
    case KeyKind::integer: {
      std::vector<std::string> bad{"\"x\"", "true", "1.5", "[1]", "{a = 1}", "nan"};
      if (key.clock_time)
        return {"60", "\"60\"", "\"00:00:00\"", "\"1:2:3\"", "\"01:00:60\"", "\"-1:00:00\"", "01:00:00"};
      if (key.lowest) bad.push_back(fmt::format("{}", *key.lowest - 1));
      if (key.lowest) bad.push_back("-9223372036854775808");
      if (key.highest) bad.push_back(fmt::format("{}", *key.highest + 1));
      if (key.highest) bad.push_back("9223372036854775807");
      if (key.even) bad.push_back(fmt::format("{}", *key.lowest + 1));
      return bad;
    }
    case KeyKind::number: {
      std::vector<std::string> bad{"\"x\"", "true", "[1.0]", "{a = 1}", "nan", "inf", "-inf"};
      if (key.low)
        bad.push_back(fmt::format("{}", key.low_open ? *key.low : std::nextafter(*key.low, -1e300)));
      if (key.low) bad.push_back(fmt::format("{}", static_cast<int64_t>(*key.low) - 1));
      if (key.high)
        bad.push_back(fmt::format("{}", key.high_open ? *key.high : std::nextafter(*key.high, 1e300)));
      if (key.high) bad.push_back(fmt::format("{}", static_cast<int64_t>(*key.high) + 1));
      return bad;
    }
    case KeyKind::text: {
      std::vector<std::string> bad{"1", "true", "1.5", "[\"x\"]", "{a = 1}", "2026-01-01"};
      if (!key.none_if_empty) bad.push_back("\"\"");
      return bad;
    }
    case KeyKind::choice: {
      std::vector<std::string> bad{"1", "true", "\"no such choice\"", "\"\"", "{a = 1}"};
      bad.push_back(key.list_form.empty() ? "[\"" + key.choices[0] + "\"]" : "[0]");
      return bad;
    }
    case KeyKind::table:
      return {"1", "true", "[1]", "{}", "{no_such_field = 1}"};
    case KeyKind::string_map:
      return {"1", "\"x\"", "[1]", "{A = [1]}", "{A = {}}"};
  }
  return {};
}

std::vector<std::string> bad_values(const Key& key) {
  std::vector<std::string> bad = bad_elements(key);
  if (!key.list) return bad;
  for (std::string& each : bad) each = "[" + each + "]";
  bad.insert(bad.end(), {"1", "true", "\"x\"", "{a = 1}"});
  if (key.not_empty) bad.emplace_back("[]");
  return bad;
}

// A right value that is not the default.
TomlNode other_element(const Key& key) {
  switch (key.kind) {
    case KeyKind::boolean:
      return TomlNode::of(key.list || !key.load().boolean);
    case KeyKind::integer:
      if (key.clock_time) return TomlNode::of("101:02:03");
      return TomlNode::of(key.highest ? *key.highest - (*key.highest % 2)
                                      : std::numeric_limits<int64_t>::max() - 1);
    case KeyKind::number:
      return TomlNode::of(key.high ? std::nextafter(*key.high, 0.0) : 1.0 / 3 + 1e17);
    case KeyKind::text:
      return TomlNode::of("tab\t quote\" back\\slash ü");
    case KeyKind::choice:
      return TomlNode::of(key.choices.back());
    case KeyKind::table: {
      TomlNode table = TomlNode::empty_table();
      for (const Key& field : key.fields) {
        Key described = field;
        described.load = [] { return TomlNode{}; };
        table.table.push_back({field.name, {}, other_element(described)});
      }
      return table;
    }
    case KeyKind::string_map: {
      TomlNode table = TomlNode::empty_table();
      table.table.push_back({"quoted key.", {}, TomlNode::of("1")});
      table.table.push_back({"A", {}, TomlNode::of("x")});
      return table;
    }
  }
  return {};
}

TomlNode other_value(const Key& key) {
  TomlNode element = other_element(key);
  if (key.file_name) element = TomlNode::of("name with ü");
  return key.list ? TomlNode::list_of({element, element}) : element;
}

std::string values_refusal(const std::string& text) {
  try {
    parse_job_values(text, "t.toml");
  } catch (const JobError& error) {
    return error.what();
  }
  return "";
}

TEST(EveryKey, RefusesWrongTypesAndRangesAtTheirPlace) {
  Job job;
  int checked = 0;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      for (const std::string& bad : bad_values(key)) {
        const std::string text = fmt::format("# first line\n[{}]\n  {} = {}\n", section.name, key.name, bad);
        const std::string message = values_refusal(text);
        const std::string place = fmt::format("t.toml:3:");
        const size_t at = message.find(place);
        ASSERT_NE(at, std::string::npos)
            << section.name << "." << key.name << " = " << bad << " is accepted\n"
            << message;
        const int column = std::stoi(message.substr(at + place.size()));
        EXPECT_GE(column, static_cast<int>(key.name.size()) + 6) << text << message;
        EXPECT_LT(column, static_cast<int>(key.name.size() + 6 + bad.size())) << text << message;
        EXPECT_THAT(message, HasSubstr(section.name + "." + key.name));
        EXPECT_TRUE(key.kind == KeyKind::table || message.find("found ") != std::string::npos) << text;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 500);
}

TEST(EveryKey, RefusesAWrongValueFromTheCommandLine) {
  Job job;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      const std::string argument = fmt::format("{}.{}={{a = {{}}}}", section.name, key.name);
      std::string message;
      try {
        parse_job("", "t.toml", {argument});
      } catch (const JobError& error) {
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr("--set: " + section.name + "." + key.name));
      EXPECT_THAT(message, HasSubstr("  --set | " + argument + "\n"));
    }
  }
}

TEST(EveryKey, AMisspelledNameFindsIt) {
  Job job;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      if (key.name.size() < 4) continue;
      std::string typo = key.name;
      typo[1] = 'Q';
      const std::string message = values_refusal(fmt::format("[{}]\n{} = 1\n", section.name, typo));
      EXPECT_THAT(message, HasSubstr(fmt::format("t.toml:2:1: {}.{}: unknown key; did you mean `{}`?",
                                                 section.name, typo, key.name)));
    }
  }
}

TEST(EveryKey, IsDocumented) {
  Job job;
  const std::string page = job_file_page();
  for (const SectionKeys& section : keys_of(job)) {
    EXPECT_THAT(page, HasSubstr("\n## [" + section.name + "]\n"));
    EXPECT_FALSE(section.keys.empty());
    for (const Key& key : section.keys) {
      EXPECT_GT(key.help.size(), 5u) << section.name << "." << key.name;
      EXPECT_FALSE(default_text(key).empty()) << section.name << "." << key.name;
      EXPECT_THAT(page, HasSubstr("\n| `" + key.name + "` | "));
    }
  }
}

TEST(EveryKey, OtherValuesSurviveWritingAndReading) {
  Job job;
  const Job initial;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      TomlNode value = other_value(key);
      Problems problems("", "", {});
      ASSERT_TRUE(check_value(key, value, section.name + "." + key.name, problems)) << problems.text();
      key.assign(value);
      EXPECT_TRUE(same_value(key.value(), value))
          << section.name << "." << key.name << " = " << to_text(key.value());
    }
  }
  EXPECT_EQ(parse_job_values(to_toml(job), "t.toml"), job) << to_toml(job);

  // And every one of them is a difference.
  const std::vector<Difference> differences = difference(initial, job);
  size_t keys = 0;
  for (const SectionKeys& section : keys_of(job)) keys += section.keys.size();
  EXPECT_EQ(differences.size(), keys);
}

TEST(EveryKey, DefaultsAreInRange) {
  Job job;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      TomlNode value = key.value();
      if (key.required || !key.derived.empty() || value.kind == TomlNode::Kind::none) continue;
      Problems problems("", "", {});
      EXPECT_TRUE(check_value(key, value, section.name + "." + key.name, problems)) << problems.text();
    }
  }
}

}  // namespace
}  // namespace penstock
