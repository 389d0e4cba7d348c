#include "trainer/report/terminal.h"

#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::report {

Terminal terminal_of(std::FILE* stream) {
  Terminal out;
  const int fd = ::fileno(stream);
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  const bool plain = no_color != nullptr && *no_color != '\0';
  // mpirun gives its ranks a pseudo-terminal whatever its own output is, a file for instance.
  const bool launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  out.redraw = fd >= 0 && ::isatty(fd) == 1 && !dumb && !plain && !launched;
  winsize size = {};
  if (out.redraw && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) out.columns = size.ws_col;
  return out;
}

}  // namespace penstock::report
