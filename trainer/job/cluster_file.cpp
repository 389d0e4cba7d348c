#include "trainer/job/cluster_file.h"

#include "trainer/job/job_reader.h"
#include "trainer/job/section_collector.h"
#include "trainer/job/text_file.h"
#include "trainer/job/toml_source.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

std::vector<SectionKeys> sections_of(Cluster& cluster) {
  SectionCollector collector;
  cluster.describe(collector);
  return collector.take();
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& name) {
  Problems problems(name, text, {}, "cluster");
  TomlNode document = parse_toml(text, problems);
  problems.throw_if_any();  // without a document every key would seem to be missing
  Cluster cluster;
  read_sections(document, sections_of(cluster), problems);
  problems.throw_if_any();
  return cluster;
}

Cluster read_cluster(const std::filesystem::path& file) {
  return parse_cluster(read_text_file(file, "cluster file"), file.string());
}

std::string cluster_file_keys() {
  Cluster cluster;
  return key_tables(sections_of(cluster));
}

}  // namespace penstock
