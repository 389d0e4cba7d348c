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
namespace {

using nlohmann::json;

constexpr int schema = 1;

json as_json(const PreparationState& state) {
  return {{"schema", schema},
          {"request", state.request},
          {"complete", state.complete},
          {"input", state.input},
          {"position", state.position},
          {"file_bytes", state.file_bytes},
          {"documents", state.documents},
          {"validation_documents", state.validation_documents},
          {"text_bytes", state.text_bytes},
          {"invalid_bytes", state.invalid_bytes},
          {"first_invalid", state.first_invalid},
          {"document_open", state.document_open},
          {"in_tail", state.in_tail},
          {"notes", state.notes},
          {"training", state.training},
          {"validation", state.validation ? json(*state.validation) : json()}};
}

PreparationState from_json(const json& object) {
  if (object.at("schema") != schema)
    throw std::invalid_argument(fmt::format("schema {}", object.at("schema").dump()));
  PreparationState state;
  state.request = object.at("request");
  object.at("complete").get_to(state.complete);
  object.at("input").get_to(state.input);
  object.at("position").get_to(state.position);
  object.at("file_bytes").get_to(state.file_bytes);
  object.at("documents").get_to(state.documents);
  object.at("validation_documents").get_to(state.validation_documents);
  object.at("text_bytes").get_to(state.text_bytes);
  object.at("invalid_bytes").get_to(state.invalid_bytes);
  object.at("first_invalid").get_to(state.first_invalid);
  object.at("document_open").get_to(state.document_open);
  object.at("in_tail").get_to(state.in_tail);
  object.at("notes").get_to(state.notes);
  object.at("training").get_to(state.training);
  if (!object.at("validation").is_null())
    state.validation = object.at("validation").get<data::TokenWriterState>();
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
    throw data::DataError(data::Fault{
        path, {}, found, "what `data prepare` left to go on from (schema 1)", "begin again with --restart"});
  };
  const data::MappedFile file(path);
  try {
    return from_json(json::parse(file.text()));
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
