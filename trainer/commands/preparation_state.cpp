#include "trainer/commands/preparation_state.h"

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/json/json_fault.h"
#include "data/mapped_file.h"

namespace penstock::data {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DocumentPosition, byte, line, in_document)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TokenWriterState, tokens, documents, largest_token, block_hashes,
                                   sequences, last_length, length)

}  // namespace penstock::data

namespace penstock::commands {

using nlohmann::json;

// By argument-dependent lookup, like those above. Only regular files are kept: pipes cannot go on.
static void to_json(json& object, const InputFile& file) {
  object = json{{"path", file.path}, {"bytes", file.bytes.value_or(0)}, {"modified", file.modified}};
}
static void from_json(const json& object, InputFile& file) {
  file = {object.at("path"), object.at("bytes").get<uint64_t>(), object.at("modified")};
}

namespace {

constexpr int schema = 2;

// visit(name, member) for each; the one list for writing and reading.
template <class State, class Visit>
void each_member(State& state, Visit visit) {
  visit("request", state.request);
  visit("inputs", state.inputs);
  visit("complete", state.complete);
  visit("input", state.input);
  visit("position", state.position);
  visit("file_bytes", state.file_bytes);
  visit("documents", state.documents);
  visit("validation_documents", state.validation_documents);
  visit("text_bytes", state.text_bytes);
  visit("invalid", state.invalid);
  visit("first_invalid", state.first_invalid);
  visit("document_open", state.document_open);
  visit("in_tail", state.in_tail);
  visit("notes", state.notes);
  visit("training", state.training);
  visit("validation", state.validation);
}

template <class T>
void put(json& value, const T& member) {
  value = member;
}
template <class T>
void put(json& value, const std::optional<T>& member) {
  value = member ? json(*member) : json();
}
template <class T>
void take(const json& value, T& member) {
  value.get_to(member);
}
template <class T>
void take(const json& value, std::optional<T>& member) {
  if (!value.is_null()) member = value.get<T>();
}

json as_json(const PreparationState& state) {
  json object{{"schema", schema}};
  each_member(state, [&](const char* name, const auto& member) { put(object[name], member); });
  return object;
}

PreparationState state_of(const json& object) {
  if (object.at("schema") != schema)
    throw std::invalid_argument(fmt::format("schema {}", object.at("schema").dump()));
  PreparationState state;
  each_member(state, [&](const char* name, auto& member) { take(object.at(name), member); });
  return state;
}

}  // namespace

std::string preparation_path(const std::string& output) {
  return output + ".preparation.json";
}

void save_preparation(const std::string& path, const PreparationState& state) {
  data::write_file(path, as_json(state).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::optional<PreparationState> load_preparation(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  const auto refuse = [&](const std::string& found) {
    throw data::DataError(
        data::Fault{path,
                    {},
                    found,
                    fmt::format("what `data prepare` left to go on from (schema {})", schema),
                    "begin again with --restart"});
  };
  const data::MappedFile file(path);
  try {
    return state_of(json::parse(file.text()));
  } catch (const json::exception& error) {
    refuse(data::json_fault(file.text(), error).what);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return std::nullopt;
}

void remove_preparation(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw data::write_error(path, "remove it", errno);
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  data::sync_folder(folder.empty() ? "." : folder);
}

}  // namespace penstock::commands
