#pragma once

#include <string>

namespace penstock::watchdog {

/// Makes thread_stacks() ready: installs the handler of a real-time signal, and loads what unwinding needs.
/// Once a process is enough. Throws std::system_error.
void prepare_thread_stacks();

/// Where every thread of this process is: its name and number, and its calls, innermost first, by function
/// where it is known and by file and offset else (for addr2line -e FILE OFFSET). Each thread is asked by a
/// signal and answers from its handler; one that does not within half a second is named without its calls.
std::string thread_stacks();

}  // namespace penstock::watchdog
