#include "trainer/hugging_face/read_json.h"

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/json/json_fault.h"
#include "data/mapped_file.h"

namespace penstock::hugging_face {

nlohmann::json read_json(const std::string& path) {
  const data::MappedFile file(path);
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(file.text());
  } catch (const nlohmann::json::exception& error) {
    const data::JsonFault fault = data::json_fault(file.text(), error);
    throw data::DataError(data::Fault{
        path, fault.byte,
        fmt::format("text that is not JSON (line {}, column {}: {})", fault.line, fault.column, fault.what),
        "a JSON object", "fetch or write the file again"});
  }
  if (!object.is_object()) {
    throw data::DataError(
        data::Fault{path, {}, object.type_name(), "a JSON object", "fetch or write the file again"});
  }
  return object;
}

}  // namespace penstock::hugging_face
