// The layers are a DAG: an #include may only cross from a module to one that it depends on
// (module_graph.json, which the build itself writes), and a backend's #ifdef may stand only in that backend's
// folder.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

namespace fs = std::filesystem;

struct Module {
  std::string path;
  std::vector<std::string> depends;
};

std::map<std::string, Module> read_graph() {
  std::ifstream in(std::string(PENSTOCK_BINARY_DIR) + "/module_graph.json");
  std::map<std::string, Module> graph;
  for (const auto& [name, row] : nlohmann::json::parse(in).items()) {
    graph[name] = {row.at("path"), row.at("depends")};
  }
  return graph;
}

// The module whose folder is the longest prefix of `file` (relative to the source root), or "".
std::string module_of(const std::map<std::string, Module>& graph, const std::string& file) {
  std::string best;
  size_t length = 0;
  for (const auto& [name, module] : graph) {
    if (file.rfind(module.path + "/", 0) == 0 && module.path.size() > length) {
      best = name;
      length = module.path.size();
    }
  }
  return best;
}

std::set<std::string> closure(const std::map<std::string, Module>& graph, const std::string& name) {
  std::set<std::string> reached{name};
  std::vector<std::string> open{name};
  while (!open.empty()) {
    const std::string at = open.back();
    open.pop_back();
    for (const std::string& next : graph.at(at).depends) {
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  return reached;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> endings{".h", ".cpp", ".cu", ".cuh"};
  return endings.count(path.extension().string()) > 0;
}

// Every complaint about one file's text, as "file:line: reason".
std::vector<std::string> complaints(const std::map<std::string, Module>& graph, const std::string& file,
                                    std::istream& text) {
  static const std::regex include(R"(^\s*#\s*include\s*"([^"]+)\")");
  static const std::regex backend(
      R"(^\s*#\s*(if|ifdef|ifndef|elif)\b.*\b(\w*CUDA\w*|__NVCC__|\w*NCCL\w*)\b)");
  std::vector<std::string> found;
  const std::string owner = module_of(graph, file);
  const std::set<std::string> allowed = owner.empty() ? std::set<std::string>{} : closure(graph, owner);
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const std::string place = file + ":" + std::to_string(number) + ": ";
    std::smatch match;
    if (std::regex_search(line, match, include)) {
      const std::string target = module_of(graph, match[1].str());
      if (owner.empty()) {
        found.push_back(place + "the file belongs to no module");
      } else if (target.empty()) {
        found.push_back(place + "\"" + match[1].str() +
                        "\" is in no module (write paths from the source root)");
      } else if (allowed.count(target) == 0) {
        found.push_back(place + "module " + owner + " does not depend on " + target);
      }
    }
    if (std::regex_search(line, backend) && file.rfind("kernels/cuda/", 0) != 0) {
      found.push_back(place + "a CUDA #if outside kernels/cuda");
    }
  }
  return found;
}

TEST(Includes, FollowTheModuleGraph) {
  const auto graph = read_graph();
  ASSERT_GE(graph.size(), 8u);
  int files = 0;
  for (const char* layer : {"kernels", "data", "model", "parallel", "trainer"}) {
    const fs::path root = fs::path(PENSTOCK_SOURCE_DIR) / layer;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!is_source(entry.path())) continue;
      ++files;
      std::ifstream in(entry.path());
      for (const std::string& complaint :
           complaints(graph, fs::relative(entry.path(), PENSTOCK_SOURCE_DIR).string(), in)) {
        ADD_FAILURE() << complaint;
      }
    }
  }
  EXPECT_GT(files, 10);
}

TEST(Includes, TheGraphHasNoCycle) {
  const auto graph = read_graph();
  for (const auto& [name, module] : graph) {
    for (const std::string& dependency : module.depends) {
      EXPECT_EQ(closure(graph, dependency).count(name), 0u)
          << name << " and " << dependency << " form a cycle";
    }
  }
}

TEST(Includes, WrongOnesAreCaught) {
  const auto graph = read_graph();
  std::istringstream upward("#include \"trainer/job/job.h\"\n");
  EXPECT_EQ(complaints(graph, "kernels/device/x.h", upward).size(), 1u);
  std::istringstream relative("#include \"stream.h\"\n");
  EXPECT_EQ(complaints(graph, "kernels/device/x.h", relative).size(), 1u);
  std::istringstream backend("#ifdef PENSTOCK_HAVE_CUDA\n");
  EXPECT_EQ(complaints(graph, "model/x.cpp", backend).size(), 1u);
  std::istringstream fine("#include \"kernels/device/stream.h\"\n#include <vector>\n");
  EXPECT_TRUE(complaints(graph, "model/x.cpp", fine).empty());
}

TEST(Names, ExplainThemselves) {
  for (const char* layer : {"kernels", "data", "model", "parallel", "trainer"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PENSTOCK_SOURCE_DIR) / layer)) {
      const std::string stem = entry.path().stem().string();
      for (const char* vague : {"util", "utils", "common", "helper", "helpers", "misc", "manager"}) {
        EXPECT_NE(stem, vague) << entry.path();
      }
    }
  }
}

}  // namespace
