#include "data/data_error.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace penstock::data {
namespace {

std::string sentence(const Fault& fault) {
  std::string text = fault.file;
  if (fault.offset) text += fmt::format(": byte {}", *fault.offset);
  text += fmt::format(": found {}, expected {}", fault.found, fault.expected);
  if (!fault.advice.empty()) text += "; " + fault.advice;
  return text;
}

const char* advice_for(int error) {
  switch (error) {
    case ENOENT:
      return "; check the path (a folder of it may be missing)";
    case EACCES:
    case EPERM:
      return "; check the permissions of the file and of its folder";
    case EROFS:
      return "; choose a folder that can be written to";
    case ENOSPC:
    case EDQUOT:
      return "; free space on that disk or choose another";
    case EFBIG:
      return "; raise the file size limit (ulimit -f) or choose another disk";
    case EISDIR:
    case ENOTDIR:
      return "; give the path of a file";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

std::string call_failed(const std::string& file, const std::string& doing, int error,
                        std::optional<uint64_t> offset) {
  std::string text = fmt::format("{}: cannot {}", file, doing);
  if (offset) text += fmt::format(" at byte {}", *offset);
  return text + ": " + std::generic_category().message(error) + advice_for(error);
}

}  // namespace

DataError::DataError(const Fault& fault) : std::runtime_error(sentence(fault)) {}

DataError system_error(const std::string& file, const std::string& doing, int error,
                       std::optional<uint64_t> offset) {
  return DataError(call_failed(file, doing, error, offset));
}

WriteError write_error(const std::string& file, const std::string& doing, int error,
                       std::optional<uint64_t> offset) {
  return WriteError(call_failed(file, doing, error, offset));
}

}  // namespace penstock::data
