#include "parallel/planner/profile.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/parallel/planner/stored_profile.h"

namespace penstock::planner {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

MeasuredMode mode(Recompute recompute, double time, int64_t bytes) {
  MeasuredMode made;
  made.mode = recompute;
  made.forward = {time, 0.1 * time, 9};
  made.recompute = {recompute == Recompute::none ? 0 : time, 0, 9};
  made.backward_input = {2 * time, 0, 9};
  made.backward_weight = {3 * time, 0, 9};
  made.forward_bytes = bytes;
  made.kept_bytes = 2 * bytes;
  made.weight_bytes = 3 * bytes;
  made.transient_bytes = 4 * bytes;
  return made;
}

MeasuredUnit unit(const std::string& kind, double time) {
  MeasuredUnit made;
  made.kind = kind;
  made.parameters = 100;
  made.flops = 1000;
  made.resident_bytes = 1800;
  made.gradient_bytes = 400;
  made.optimizer_step = {0.25, 0, 3};
  const std::vector<Recompute> modes =
      kind == "attention" || kind == "mlp"
          ? std::vector{Recompute::none, Recompute::selective, Recompute::full}
          : std::vector{Recompute::none};
  for (const int64_t sequences : {2, 4}) {
    MeasuredSize size;
    size.micro_batch = sequences;
    size.workspace_bytes = 10 * sequences;
    size.side_band_bytes = sequences;
    for (const Recompute each : modes)
      size.modes.push_back(mode(each, time * (1 + static_cast<double>(sequences)), 100 * sequences));
    made.sizes.push_back(size);
  }
  return made;
}

Profile example() {
  Profile profile;
  profile.device = "a device";
  profile.versions = {{"build", "1"}, {"oneDNN", "2.6"}};
  profile.threads = 2;
  profile.compute = "bf16";
  profile.model = {{"family", std::string("gpt2")},
                   {"layers", int64_t{2}},
                   {"sequence_length", int64_t{16}},
                   {"dropout", 0.5},
                   {"qk_norm", false}};
  profile.shapes = {{2, 64, 7}, {4, 128, 7}};
  profile.units = {unit("embedding", 1), unit("attention", 2), unit("mlp", 4), unit("head", 8)};
  profile.units.push_back(unit("attention", 16));
  profile.units.back().only = {"attention_1"};
  profile.links = {{-1, -1, 1e-6, 1e9, 2e9}, {0, 1, 2e-6, std::nullopt, 0}};
  profile.reduction = MeasuredLink{-1, -1, 1e-5, 4e9, 0};
  profile.traffic_slowdown = 0.125;
  profile.pace = {1, 1.5};
  return profile;
}

TEST(Profile, SurvivesItsFile) {
  const Profile profile = example();
  EXPECT_EQ(read_profile(write_profile(profile), "x"), profile);
  for (const char* name : {"uniform", "slow_link", "two_slow_ranks", "tied"}) {
    const Profile stored = stored_profile(name);
    EXPECT_EQ(read_profile(write_profile(stored), "x"), stored) << name;
  }
}

TEST(Profile, CostsAreThoseMeasured) {
  const ModelCosts model = model_costs(example(), 4);
  ASSERT_EQ(model.units.size(), 6u);
  EXPECT_EQ(model.units[3].name, "attention_1");
  EXPECT_EQ(model.units[1].in(Recompute::none).forward, 10);
  EXPECT_EQ(model.units[3].in(Recompute::none).forward, 80);
  EXPECT_EQ(model.units[4].in(Recompute::full).recompute, 20);
  EXPECT_EQ(model.units[4].in(Recompute::full).backward_weight, 60);
  EXPECT_EQ(model.units[2].in(Recompute::selective).kept_bytes, 800);
  EXPECT_EQ(model.units[2].in(Recompute::selective).transient_bytes, 1600);
  // Embedding and head have one mode, and any.
  EXPECT_EQ(model.units[5].in(Recompute::full), model.units[5].in(Recompute::none));
  EXPECT_EQ(model.units[1].layers, 1);
  EXPECT_EQ(model.units[0].layers, 0);
  EXPECT_EQ(model.units[0].flops, 4000);
  EXPECT_EQ(model.units[0].workspace_bytes, 40);
  EXPECT_EQ(model.tokens, 64);
  EXPECT_EQ(model.boundary_bytes, 128);
  EXPECT_THAT(model.source, HasSubstr("a device"));
}

TEST(Profile, CostsLieOnTheLineBetweenSizes) {
  const Profile profile = example();
  EXPECT_EQ(model_costs(profile, 3).units[1].in(Recompute::none).forward, 8);
  EXPECT_EQ(model_costs(profile, 3).units[1].in(Recompute::none).forward_bytes, 300);
  EXPECT_EQ(model_costs(profile, 8).units[1].in(Recompute::none).forward, 18);
  EXPECT_EQ(model_costs(profile, 1).units[1].in(Recompute::none).forward, 4);
  EXPECT_THROW(model_costs(profile, 9), ProfileError);
  EXPECT_THROW(model_costs(profile, 0), ProfileError);
  Profile one = profile;
  one.shapes.erase(one.shapes.begin());
  for (MeasuredUnit& each : one.units) each.sizes.erase(each.sizes.begin());
  EXPECT_EQ(model_costs(one, 2).units[1].in(Recompute::none).forward, 5);
  EXPECT_THROW(model_costs(one, 1), ProfileError);
}

TEST(Profile, ModesThatWereNotMeasuredAreNotAvailable) {
  Profile profile = example();
  for (MeasuredSize& size : profile.units[2].sizes) size.modes.pop_back();
  const ModelCosts model = model_costs(profile, 2);
  EXPECT_TRUE(model.available[static_cast<size_t>(Recompute::selective)]);
  EXPECT_FALSE(model.available[static_cast<size_t>(Recompute::full)]);
}

TEST(Profile, LinksAndPaces) {
  const Profile profile = example();
  const LinkCosts links = link_costs(profile, 3);
  ASSERT_EQ(links.edges.size(), 9u);
  EXPECT_EQ(links.edges[1], (Edge{2e-6, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(links.edges[3], (Edge{1e-6, 1e9}));
  EXPECT_EQ(links.reduction, (Edge{1e-5, 4e9}));
  EXPECT_EQ(links.traffic_slowdown, 0.125);
  EXPECT_EQ(rank_paces(profile, 3), (std::vector<double>{1, 1.5, 1}));
  Profile measured = profile;
  measured.links = {{0, 1, 1e-6, 1e9, 0}, {1, 0, 3e-6, 2e9, 0}};
  EXPECT_EQ(link_costs(measured, 3).edges[5], (Edge{3e-6, 1e9}));
  measured.links.clear();
  EXPECT_EQ(link_costs(measured, 3).edges, (std::vector<Edge>{{}}));
}

// What is wrong with a changed file: the message names the place, what was found and what was expected.
std::string error_after(const std::function<void(Json&)>& change) {
  Json json = Json::parse(write_profile(example()));
  change(json);
  try {
    read_profile(json.dump(), "a.json");
  } catch (const ProfileError& error) {
    return error.what();
  }
  return "";
}

TEST(Profile, ErrorsNameThePlace) {
  const auto at = [](const char* pointer) { return Json::json_pointer(pointer); };
  const auto error = [&](const char* pointer, const Json& value) {
    return error_after([&](Json& json) { json[at(pointer)] = value; });
  };
  EXPECT_EQ(error("/schema", 2),
            "a.json: /schema: found 2; this build reads 1: measure again with `penstock profile`");
  EXPECT_EQ(error("/units/1/sizes/0/modes/2/forward/median", "fast"),
            "a.json: /units/1/sizes/0/modes/2/forward/median: found \"fast\"; expected a number");
  EXPECT_EQ(error("/units/1/sizes/0/modes/2/forward/median", -1),
            "a.json: /units/1/sizes/0/modes/2/forward/median: found -1; expected a number from 0 to 1e+06");
  EXPECT_EQ(error("/units/1/sizes/1/micro_batch", 2),
            "a.json: /units/1/sizes/1/micro_batch: found 2; expected more sequences than the entry before");
  EXPECT_THAT(error("/units/1/sizes/0/modes/1/mode", "half"),
              HasSubstr("\"none\", \"selective\" or \"full\""));
  EXPECT_THAT(error("/units/1/sizes/0/modes/1/mode", "none"), HasSubstr("each mode once"));
  EXPECT_THAT(error("/units/4/only/0", "attention_2"), HasSubstr("/units/4/only/0: found \"attention_2\""));
  EXPECT_THAT(error("/units/4/kind", "mlp"), HasSubstr("/units/4/only/0"));
  EXPECT_THAT(error("/units/4/kind", "convolution"), HasSubstr("embedding, attention, mlp or head"));
  EXPECT_THAT(error("/units/0/parameters", 1.5), HasSubstr("found 1.5; expected a whole number"));
  EXPECT_THAT(error("/units/0/parameter", 1), HasSubstr("/units/0/parameter: an unknown key; expected: "));
  EXPECT_THAT(error("/links/0/to", 3), HasSubstr("a rank, or -1 where \"from\" is -1"));
  EXPECT_THAT(error("/links/0/bandwidth", 0),
              HasSubstr("bytes a second from 1 to 1e+15, or null for no limit"));
  EXPECT_THAT(error("/pace/1", 0), HasSubstr("/pace/1: found 0"));
  EXPECT_THAT(error("/model/layers", 0), HasSubstr("/model/layers: found 0; expected 1 to 65536"));
  EXPECT_THAT(error("/model/layers", "two"), HasSubstr("/model/layers: expected a whole number"));
  EXPECT_THAT(error("/model/family", Json::array()), HasSubstr("/model/family: found []"));
  EXPECT_THAT(error("/device", 3), HasSubstr("/device: found 3; expected a string"));
  EXPECT_THAT(error_after([](Json& json) { json.erase("units"); }), HasSubstr("/units: found nothing"));
  EXPECT_THAT(error_after([](Json& json) { json["units"].erase(2); }),
              HasSubstr("no entry for every \"mlp\""));
  EXPECT_THAT(error_after([](Json& json) { json["shapes"] = Json::array(); }),
              HasSubstr("no micro-batch size"));
  EXPECT_THAT(error_after([](Json& json) { json = Json::array(); }), HasSubstr("expected an object"));
}

// Walks the whole file: whatever number stands anywhere, absurd ones in its place are refused by its name.
void each_number(const Json& json, const std::string& pointer,
                 const std::function<void(const std::string&)>& visit) {
  if (json.is_number()) visit(pointer);
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) each_number(value, pointer + "/" + key, visit);
}

TEST(Profile, EveryNumberHasARange) {
  Profile full = example();
  full.links[1].bandwidth = 1e9;  // a number, to be walked to
  const Json good = Json::parse(write_profile(full));
  int numbers = 0;
  each_number(good, "", [&](const std::string& pointer) {
    if (pointer == "/model/dropout") return;  // compared with the job's, nothing is computed from it
    ++numbers;
    for (const char* value : {"1e300", "-2", "-1e-300", "18446744073709551615", "9223372036854775807"}) {
      Json json = good;
      Json& number = json[Json::json_pointer(pointer)];
      const Json absurd = Json::parse(value);
      if (absurd.is_number_integer() && value[0] != '-' && number.is_number_float())
        continue;  // FLOPs may be as many
      number = absurd;
      try {
        read_profile(json.dump(), "a.json");
        ADD_FAILURE() << pointer << " = " << value << " was taken";
      } catch (const ProfileError& error) {
        EXPECT_THAT(error.what(), HasSubstr("a.json: " + pointer + ": ")) << value;
      }
    }
  });
  EXPECT_GT(numbers, 300);
}

// What JSON has no words for.
TEST(Profile, NumbersThatNoDoubleHoldsAreRefusedWithTheirPlace) {
  for (const char* value : {"1e999", "nan", "Infinity", "-"}) {
    std::string text = write_profile(example());
    const std::string key = "\"traffic_slowdown\": ";
    const size_t at = text.find(key) + key.size();
    text.replace(at, text.find_first_of(",\n", at) - at, value);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    try {
      read_profile(text, "a.json");
      ADD_FAILURE() << value;
    } catch (const ProfileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.json:" + std::to_string(line) + ":")) << value;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("json.exception"))) << value;
    }
  }
}

TEST(Profile, AModeThatOneUnitLacksIsRefused) {
  const auto without = [](size_t unit, size_t size, size_t mode) {
    return error_after([&](Json& json) { json["units"][unit]["sizes"][size]["modes"].erase(mode); });
  };
  EXPECT_EQ(
      without(2, 0, 0),
      "a.json: /units/2/sizes/0/modes: found selective, full; expected the modes of "
      "/units/1/sizes/0/modes, which are none, selective, full: measure each attention and MLP under the "
      "same modes");
  EXPECT_THAT(without(1, 1, 2), HasSubstr("/units/1/sizes/1/modes: found none, selective; expected"));
  EXPECT_THAT(without(4, 0, 1), HasSubstr("/units/4/sizes/0/modes: found none, full"));
}

TEST(Profile, UnreadableFilesSaySo) {
  const auto error = [](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const ProfileError& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_THAT(error([] { read_profile("{\"schema\": 1,", "a.json"); }),
              HasSubstr("a.json:1:14: is not JSON: unexpected end of input"));
  EXPECT_THAT(error([] { read_profile_file("/nowhere/a.json"); }),
              HasSubstr("/nowhere/a.json: cannot read this profile: No such file"));
  EXPECT_THAT(error([] { read_profile_file("/"); }), HasSubstr("/: found a folder; expected a profile"));
  Profile profile = example();
  profile.traffic_slowdown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error([&] { write_profile(profile); }), HasSubstr("/traffic_slowdown: found nan"));
}

}  // namespace
}  // namespace penstock::planner
