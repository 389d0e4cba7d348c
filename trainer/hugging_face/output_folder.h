#pragma once

#include <string>

namespace penstock::hugging_face {

/// Whether the program gives such a name to a file of an exported model, "NAME.partial" included.
bool is_export_name(const std::string& name);

/// A folder that appears under its name when it is complete. Until commit() everything lies in
/// `<path>.partial` beside it, which is deleted with this object; what a killed export left there is written
/// over.
class OutputFolder {
 public:
  /// WriteError if `path` holds anything; with `replace`, if it holds anything but an exported model.
  OutputFolder(std::string path, bool replace);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write the file.
  std::string file(const std::string& name) const { return partial_ + "/" + name; }
  /// The folder takes its name, in place of the one that was there.
  void commit();

 private:
  std::string path_;
  std::string partial_;
};

}  // namespace penstock::hugging_face
